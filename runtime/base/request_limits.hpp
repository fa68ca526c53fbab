#pragma once

#include <cstdint>

/// Upper bounds of request fields. protocol/wire refuses larger values with the field's name;
/// `sampling::validate` checks them again for the embedding API.
namespace paceline {

inline constexpr std::uint32_t max_draft_length = 64; ///< draft tokens in one round
inline constexpr std::uint32_t max_beam_width = 16;   ///< hypotheses of a beam search

} // namespace paceline
