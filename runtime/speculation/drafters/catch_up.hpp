#pragma once

#include <cstddef>

namespace paceline::speculation {

/// Tokens that a drafter indexes per call and session at most (about half a millisecond), so that a long text
/// is learnt over several rounds.
inline constexpr std::size_t max_catch_up = 4096;

} // namespace paceline::speculation
