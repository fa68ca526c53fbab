#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::grammar {

/// The constraint of outputs that one of `alternatives` allows. Not empty.
std::shared_ptr<const token_constraint>
any_alternative(std::vector<std::shared_ptr<const token_constraint>> alternatives, std::uint32_t vocab_size);

} // namespace paceline::grammar
