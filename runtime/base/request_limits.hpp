#pragma once

#include <cstdint>

/// The most that a request may ask for: what protocol/wire refuses with its field's name and
/// `sampling::validate` checks once more, for the embedding API.
namespace paceline {

inline constexpr std::uint32_t max_draft_length = 64; ///< tokens a round may draft
inline constexpr std::uint32_t max_beam_width = 16;   ///< hypotheses of a beam search

} // namespace paceline
