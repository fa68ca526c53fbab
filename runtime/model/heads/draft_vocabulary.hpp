#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/model/heads/head_tensors.hpp"

#include <cstdint>
#include <vector>

namespace paceline::model {

/// Takes "d2t", which holds for each of `num_drafted` tokens of the draft vocabulary what is to be added to
/// it to give the target's, one of `num_tokens`, or in GGUF files (`are_absolute`) that one itself. Returns
/// the target's; empty if the tensor is absent: the same ids. `has_lm_head`: the head has an LM head of its
/// own; a draft vocabulary needs one.
std::vector<token_id> take_target_ids(head_tensors& tensors, std::uint32_t num_drafted,
                                      std::uint32_t num_tokens, bool has_lm_head, bool are_absolute = false);

} // namespace paceline::model
