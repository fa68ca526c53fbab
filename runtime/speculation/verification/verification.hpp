#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/drafters/draft.hpp"
#include "runtime/speculation/verification/dice.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// How draft tokens are kept. docs/verification.md compares the rules.
namespace paceline::speculation {

/// What one round decided for one request.
struct verdict {
  std::vector<std::int32_t> accepted_path; ///< node indices, root first: the leading run kept
  token_id next;                           ///< recovered token, or bonus if the path ended in a leaf
  bool bonus = false;                      ///< no draft token was rejected: `next` lies below a leaf
  bool hopeless =
      false; ///< the row that decides `next` had no finite logit; `next` is the lowest id. The model failed
};

/// Raw logits of the target at one place of the tree: `token_tree::root` (row of the last committed token) or
/// a node. The span is scratch, and the rule's until the verification ends; each place is asked for once at
/// most.
using target_row = std::function<std::span<float>(std::int32_t node)>;

/// The request's side of a verification.
struct verification_context {
  const sampling::pipeline* sampling = nullptr;
  const sampling::token_counts* counts = nullptr;
  token_position next_position;   ///< position of the first token to be decided = base length
  std::uint32_t output_index = 0; ///< output index of that token

  /// The context of the row below `path`: the path's tokens are part of what penalties and minimum length
  /// see.
  sampling::row_context row_below(std::span<const token_id> path) const noexcept {
    const auto depth = static_cast<std::uint32_t>(path.size());
    return {.committed = counts,
            .draft_path = path,
            .position = token_position{next_position.value + depth},
            .output_index = output_index + depth};
  }
};

/// Rule `coupled`: walks down the tree; at each place the target's own sample decides, a draft token is
/// accepted iff it equals that sample. The tokens equal plain decoding's for any tree. Siblings with equal
/// tokens count as one, with the branches of all.
verdict verify_coupled(const draft& proposal, const verification_context& context, const target_row& rows);

/// The verdict of a device that walked down `tree` by the same rule (runtime/device/op_choose.hpp).
verdict verdict_of(const device::chosen_run& run, const token_tree& tree);

/// What the lossy variants of rule `rejection` change.
struct rejection_terms {
  double lenience = 1.0;    ///< factor of draft_probs wherever they stand (rule `lenient`)
  bool keep_target = false; ///< rejections leave the target as it is (rule `skip_sample_adjustment`)
};

/// Rule `rejection` (Leviathan et al. 2023, algorithm 1; trees and several proposals of one position:
/// SpecInfer's multi-step speculative sampling): siblings are tried in turn; a draft token is kept with
/// min(1, target_prob / draft_prob), a rejected one leaves norm(max(0, target_probs - draft_probs)) to the
/// next sibling and at last to the recovered token; bonus token from the target after full acceptance. Exact
/// in distribution if every node was drawn from its `draft::probs`, and whether it was drawn at all depended
/// on nothing that came after. Temperature above 0.
verdict verify_rejection(const draft& proposal, const verification_context& context, const target_row& rows,
                         dice& dice, rejection_terms terms = {});

/// Rule `block` (Sun et al., "Block verification accelerates speculative decoding", algorithm 2): decides on
/// the whole chain at once, keeps the longest leading run that a joint probability allows. Exact in
/// distribution, never fewer tokens than `rejection` on average. That verifies trees, and chains without
/// distributions, of which both keep equally many. Temperature above 0.
verdict verify_block(const draft& proposal, const verification_context& context, const target_row& rows,
                     dice& dice);

/// Rule `typical` (Cai et al., "Medusa", section 2.3.1): keeps the deepest path on which every draft token
/// has at least min(epsilon, delta * e^-entropy) of the target's probability; of equally deep ones the first.
/// Then a token of the target's own. At temperature 0 that is the argmax alone.
verdict verify_typical(const draft& proposal, const verification_context& context, const target_row& rows,
                       double epsilon, double delta);

/// Rule `lenient` at temperature 0 (Leviathan et al. 2023, appendix A.5): keeps the deepest path of tokens
/// that have at least `lenience` times the likeliest one's probability, penalties and bias included, at
/// temperature 1 and before any truncation.
verdict verify_leniently(const draft& proposal, const verification_context& context, const target_row& rows,
                         double lenience);

/// Whether the rule of a request is `coupled`, or one that comes to the same at its temperature: with a
/// one-hot target the ratio of rule `rejection` and its kin is positive for the target's own token only.
bool follows_samples(const speculation_params& how, const sampling::pipeline& sampling) noexcept;

/// The rule of a request, whatever its temperature, with the request's own dice.
verdict verify(const speculation_params& how, const draft& proposal, const verification_context& context,
               const target_row& rows);

} // namespace paceline::speculation
