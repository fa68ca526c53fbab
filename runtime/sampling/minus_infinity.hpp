#pragma once

#include <limits>

namespace paceline::sampling {

/// The logit of a token that may not be chosen.
inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

} // namespace paceline::sampling
