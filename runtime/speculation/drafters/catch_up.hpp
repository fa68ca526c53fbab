#pragma once

#include <cstddef>

namespace paceline::speculation {

/// A drafter without a model adds at most this many tokens of a session's text to its index in one call,
/// which takes about half a millisecond. So a long text is indexed over several rounds.
inline constexpr std::size_t max_catch_up = 4096;

} // namespace paceline::speculation
