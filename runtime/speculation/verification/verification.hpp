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

/// The rules of verification. docs/verification.md compares them.
namespace paceline::speculation {

/// The decision of one round for one request.
struct verdict {
  std::vector<std::int32_t> accepted_path; ///< the accepted nodes, from the root's child down
  token_id next;      ///< the recovered token, or the bonus token if the path ends in a leaf
  bool bonus = false; ///< no draft token was rejected: `next` follows a leaf
  /// No token is possible: in the row that decides `next`, no logit is finite (the model failed), or the
  /// constraint allows no token. `next` is then the lowest id.
  bool hopeless = false;
};

/// Returns the target's raw logits at one place of the tree: `token_tree::root` (the row of the last
/// committed token) or a node. The rule may overwrite the returned memory until the verification ends; each
/// place is requested at most once.
using target_row = std::function<std::span<float>(std::int32_t node)>;

/// The request's data for a verification.
struct verification_context {
  const sampling::pipeline* sampling = nullptr;
  const sampling::token_counts* counts = nullptr;
  token_position next_position;            ///< position of the first token to decide = base length
  std::uint32_t output_index = 0;          ///< output index of that token
  constraint_cursor* constraint = nullptr; ///< cursor of the request's constraint; null: no constraint
  std::span<const token_id> output = {};   ///< committed output tokens, for the constraint

  /// The context of the row after `path`; penalties and minimum length count the path's tokens.
  sampling::row_context row_below(std::span<const token_id> path) const noexcept {
    const auto depth = static_cast<std::uint32_t>(path.size());
    return {.committed = counts,
            .draft_path = path,
            .position = token_position{next_position.value + depth},
            .output_index = output_index + depth,
            .constraint = constraint,
            .output = output};
  }
};

/// Rule `coupled`: descends the tree. At each place the target takes its own sample, and a draft token is
/// accepted iff it equals that sample. The tokens equal those of plain decoding for any tree. Siblings with
/// equal tokens count as one node that has the children of all of them.
verdict verify_coupled(const draft& proposal, const verification_context& context, const target_row& rows);

/// The verdict of a device that verified `tree` by the same rule (runtime/device/op_choose.hpp).
verdict verdict_of(const device::chosen_run& run, const token_tree& tree);

/// Parameters of the lossy variants of rule `rejection`.
struct rejection_terms {
  double lenience = 1.0; ///< factor of draft_probs (rule `lenient`)
  /// After a rejection, target_probs is used again instead of norm(max(0, target_probs - draft_probs)) (rule
  /// `skip_sample_adjustment`).
  bool keep_target = false;
};

/// Rule `rejection` (Leviathan et al. 2023, algorithm 1; for trees and several proposals of one position
/// SpecInfer's multi-step speculative sampling). Siblings are tried in turn. A draft token is kept with
/// probability min(1, target_prob / draft_prob). A rejection replaces target_probs by
/// norm(max(0, target_probs - draft_probs)), where norm rescales to sum 1. The next sibling is compared with
/// this distribution. If all siblings are rejected, the recovered token is drawn from it. After full
/// acceptance the bonus token is drawn from the target. Exact in distribution if every node was drawn from
/// its `draft::probs` and the decision to draw it depended only on tokens drawn before. The temperature must
/// be above 0.
verdict verify_rejection(const draft& proposal, const verification_context& context, const target_row& rows,
                         dice& dice, rejection_terms terms = {});

/// Rule `block` (Sun et al., "Block verification accelerates speculative decoding", algorithm 2): decides on
/// prefixes of the chain, the longest first, and keeps the first prefix that is accepted. The probability of
/// acceptance depends on the joint probability of the prefix. Exact in distribution; on average it keeps at
/// least as many tokens as `rejection`. Three kinds of drafts are verified by `rejection` instead: trees;
/// chains without distributions, for which both rules keep equally many tokens; and all drafts under a
/// constraint, because `rejection` needs no row after a rejected token. The temperature must be above 0.
verdict verify_block(const draft& proposal, const verification_context& context, const target_row& rows,
                     dice& dice);

/// Rule `typical` (Cai et al., "Medusa", section 2.3.1): keeps the deepest path on which the target gives
/// every draft token a probability of at least min(epsilon, delta * e^-entropy). Among equally deep paths it
/// keeps the likeliest. Then it samples a token from the target. At temperature 0 this is the argmax.
verdict verify_typical(const draft& proposal, const verification_context& context, const target_row& rows,
                       double epsilon, double delta);

/// Rule `lenient` at temperature 0 (Leviathan et al. 2023, appendix A.5): keeps the deepest path on which
/// each token has at least `lenience` times the probability of the likeliest token at its position.
/// Probabilities include penalties and bias and are taken at temperature 1 without truncation.
verdict verify_leniently(const draft& proposal, const verification_context& context, const target_row& rows,
                         double lenience);

/// True if the rule accepts a draft token exactly if it is the target's own sample: always for `coupled`; at
/// temperature 0, where the target is one-hot, also for `rejection`, `block` and `skip_sample_adjustment`.
bool follows_samples(const speculation_params& how, const sampling::pipeline& sampling) noexcept;

/// Verifies by the request's rule, at any temperature, with the request's random decisions.
verdict verify(const speculation_params& how, const draft& proposal, const verification_context& context,
               const target_row& rows);

} // namespace paceline::speculation
