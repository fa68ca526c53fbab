#pragma once

#include "runtime/base/request.hpp"
#include "runtime/model/hash_model.hpp"

#include <functional>
#include <span>
#include <vector>

/// Beam search once more, as obvious as possible: hypotheses are lists of tokens, every step sorts what all
/// of them may go on with, logits come from the tokens alone, sums are doubles of the library's logarithms.
/// Slow. What docs/beam_search.md says, without cells, trees or drafts.
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
      lived; ///< [step][rank]: output of those that lived on after it
};

/// `logits_after`: of the target, after a context. Stop strings are not looked for.
reference_beams search_beams(const std::function<std::vector<float>(std::span<const token_id>)>& logits_after,
                             const generation_request& request);
inline reference_beams search_beams(const model::hash_model& target, const generation_request& request) {
  return search_beams([&](std::span<const token_id> context) { return target.logits_after(context); },
                      request);
}

} // namespace paceline::test
