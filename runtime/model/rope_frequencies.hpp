#pragma once

#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <vector>

namespace paceline::model {

/// Frequencies of a rotary embedding, in radians per position: pair i of a head is rotated by position *
/// frequencies[i]. `head_dim`: number of rotated values of a head, twice the number of pairs.
std::vector<double> rope_frequencies(const rope_config& rope, std::uint32_t head_dim);

/// YaRN's magnitude for a scaling factor (arXiv:2309.00071, section 3.4): 0.1 * weight * ln(factor) + 1; 1 if
/// `factor` is at most 1.
double yarn_magnitude(double factor, double weight = 1) noexcept;

} // namespace paceline::model
