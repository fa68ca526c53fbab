#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"

#include <cstdint>
#include <vector>

namespace paceline::model {

/// Takes tensor "d2t" [num_drafted], which maps the draft vocabulary to the target's `num_tokens` tokens. The
/// target's token for draft token i is i + d2t[i], or in GGUF files (`are_absolute`) d2t[i]. Returns the
/// target's token for each draft token; empty if the tensor is absent, which means equal ids. `has_lm_head`:
/// the head has an LM head of its own, which a draft vocabulary requires. `tensors` keeps the first error.
std::vector<token_id> take_target_ids(head_tensors& tensors, std::uint32_t num_drafted,
                                      std::uint32_t num_tokens, bool has_lm_head, bool are_absolute = false);

} // namespace paceline::model
