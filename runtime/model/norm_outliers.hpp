#pragma once

#include <span>

namespace paceline::model {

/// Whether a norm's weights single out values so much that 8 bits a block of 32 do not carry the others: in
/// half of its blocks or more, the largest magnitude is `outlier_ratio` times the middle one or more.
/// Products of rows behind such a norm take them in two planes (`two_planes` of device::matmul_args).
/// docs/accuracy.md has what was measured.
bool singles_out_values(std::span<const float> norm_weights);

/// Gemma 3 270M: up to 5.7 in the layers that need no second plane, 7.3 to 23 in those that do. SmolLM2 and
/// Qwen2.5: up to 4.3.
inline constexpr float outlier_ratio = 6;

} // namespace paceline::model
