#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstdint>
#include <memory>

namespace paceline::test {

/// True if the constraint of the tests allows `token` after `before`. Of six places, two allow a single token
/// each. The others allow two thirds of the tokens, without the previous one.
bool cycle_allows(std::span<const token_id> before, token_id token, std::uint32_t vocab_size);

/// A constraint over `vocab_size` tokens by `cycle_allows`. Its outputs have no end of their own.
std::shared_ptr<const token_constraint> make_cycle_constraint(std::uint32_t vocab_size);

/// A constraint that allows all texts.
std::shared_ptr<const token_constraint> make_free_constraint(std::uint32_t vocab_size);

} // namespace paceline::test
