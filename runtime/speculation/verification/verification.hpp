#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/request.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/speculation/drafters/draft.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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
/// a node. The span is scratch: the caller of the function may overwrite it.
using target_row = std::function<std::span<float>(std::int32_t node)>;

/// The request's side of a verification.
struct verification_context {
  const sampling::pipeline* sampling = nullptr;
  const sampling::token_counts* counts = nullptr;
  token_position next_position;   ///< position of the first token to be decided = base length
  std::uint32_t output_index = 0; ///< output index of that token
};

/// Rule `coupled`: walks down the tree; at each place the target's own sample decides, a draft token is
/// accepted iff it equals that sample. The tokens equal plain decoding's for any tree.
verdict verify_coupled(const draft& proposal, const verification_context& context, const target_row& rows);

/// Rule `rejection` (Leviathan et al. 2023, Algorithm 1; chains): accept with min(1, target_prob /
/// draft_prob), else sample from norm(max(0, target_probs - draft_probs)); bonus token from the target after
/// full acceptance. Exact in distribution. Noise: Philox purposes `accept` and `residual` at the token's
/// position.
verdict verify_rejection(const draft& proposal, const verification_context& context, const target_row& rows);

verdict verify(verification_rule rule, const draft& proposal, const verification_context& context,
               const target_row& rows);

} // namespace paceline::speculation
