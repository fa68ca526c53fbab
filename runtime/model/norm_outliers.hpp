#pragma once

#include <span>

namespace paceline::model {

/// True if a norm's weights emphasise some values so much that 8-bit activations, with one scale for each
/// block of 32 values, are too coarse for the other values. The criterion: in at least half of the blocks the
/// largest magnitude is at least `outlier_ratio` times the median magnitude. Products of rows after such a
/// norm use two planes (`two_planes` of device::matmul_args). docs/accuracy.md has the measurements.
bool singles_out_values(std::span<const float> norm_weights);

/// Measured ratios: in Gemma 3 270M up to 5.7 for norms that need no second plane, and 7.3 to 23 for the
/// other norms; in SmolLM2 and Qwen2.5 up to 4.3.
inline constexpr float outlier_ratio = 6;

} // namespace paceline::model
