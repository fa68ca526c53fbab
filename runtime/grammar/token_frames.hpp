#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::grammar {

/// A way in which a model frames an answer: fixed tokens in front of it.
struct token_frame {
  std::vector<token_id> lead; ///< not empty
  std::shared_ptr<const token_constraint> answer;
};

/// The constraint of outputs that are one of `frames`: its lead, then its answer. No lead may be the
/// beginning of another one.
std::shared_ptr<const token_constraint> any_frame(std::vector<token_frame> frames, std::uint32_t vocab_size);

} // namespace paceline::grammar
