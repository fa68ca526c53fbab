#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::grammar {

/// A constraint that allows every output that at least one of `alternatives` allows. `alternatives` must not
/// be empty.
std::shared_ptr<const token_constraint>
any_alternative(std::vector<std::shared_ptr<const token_constraint>> alternatives, std::uint32_t vocab_size);

} // namespace paceline::grammar
