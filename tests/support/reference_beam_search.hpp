#pragma once

#include "runtime/base/request.hpp"
#include "runtime/model/hash_model.hpp"

#include <functional>
#include <span>
#include <vector>

/// A simple second implementation of beam search: hypotheses are lists of tokens, each step sorts all their
/// continuations, logits are computed from the tokens, sums are doubles with the library's logarithms. Slow.
/// It follows docs/beam_search.md, without cells, trees or drafts.
namespace paceline::test {

struct reference_beams {
  struct hypothesis {
    std::vector<token_id> tokens; ///< output
    double logprob = 0;
    double score = 0;
    bool stopped = false; ///< by its last token
  };
  std::vector<hypothesis> best; ///< num_best at most, best first
  std::vector<std::vector<std::vector<token_id>>>
      lived; ///< [step][rank]: output of the active hypotheses after the step
};

/// `logits_after` gives the target's logits after a context. Ignores stop strings.
reference_beams search_beams(const std::function<std::vector<float>(std::span<const token_id>)>& logits_after,
                             const generation_request& request);
inline reference_beams search_beams(const model::hash_model& target, const generation_request& request) {
  return search_beams([&](std::span<const token_id> context) { return target.logits_after(context); },
                      request);
}

} // namespace paceline::test
