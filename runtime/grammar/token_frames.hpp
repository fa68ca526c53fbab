#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::grammar {

/// Fixed tokens that a model writes before an answer, and the constraint of this answer.
struct token_frame {
  std::vector<token_id> lead; ///< not empty
  std::shared_ptr<const token_constraint> answer;
};

/// A constraint that allows the outputs of each of `frames`, that is, the lead followed by its answer. No
/// lead may be a prefix of another lead.
std::shared_ptr<const token_constraint> any_frame(std::vector<token_frame> frames, std::uint32_t vocab_size);

} // namespace paceline::grammar
