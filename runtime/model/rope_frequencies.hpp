#pragma once

#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <vector>

namespace paceline::model {

/// Frequencies of a rotary embedding: angle = position * frequencies[i] for pair i of num_pairs. `head_dim`:
/// the rotated values of a head.
std::vector<double> rope_frequencies(const rope_config& rope, std::uint32_t head_dim);

/// YaRN's magnitude for a scaling factor: 0.1 * weight * ln(factor) + 1.
double yarn_magnitude(double factor, double weight = 1) noexcept;

} // namespace paceline::model
