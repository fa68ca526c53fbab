#pragma once

#include "runtime/device/row_batch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Which values of a head form a rotated pair.
enum class rope_layout : std::uint8_t {
  interleaved, ///< (x[2i], x[2i+1])
  half_split,  ///< (x[i], x[i + num_pairs])
};

/// A factor of queries that grows in steps with their position p: 1 + beta * ln(1 + floor(p / period)).
/// Source: `llama_4_scaling_beta` in transformers' Ministral 3.
struct query_growth {
  double beta = 0;
  std::uint32_t period = 0; ///< 0: the factor is 1

  double at(token_position position) const noexcept {
    return period == 0 ? 1 : 1 + beta * std::log1p(position.value / period);
  }
};

/// Angles of a pass: table[r][i] = magnitude * cos(p_r * frequency_i), p_r = rows[r].rotary_position();
/// table[r][num_pairs + i] has sin instead. The angle, its cosine and sine and the product with the magnitude
/// are computed in double precision, and the entry is rounded to float32 once. With `growth`, for queries,
/// the magnitude is multiplied by the growth at p_r.
struct rope_table_args {
  std::span<const batch_entry> rows;
  std::span<const double> frequencies; ///< host memory, [num_pairs]
  double magnitude = 1;                ///< YaRN's attention factor
  float* table = nullptr;              ///< [num_rows][2 * num_pairs]
  query_growth growth = {};

  double magnitude_of(const batch_entry& row) const noexcept {
    return magnitude * growth.at(row.rotary_position());
  }
};

/// Rotates the first 2 * num_pairs values of every head in place; the others are unchanged.
///
///     a' = fma(a, cos, -(b * sin))        b' = fma(b, cos, a * sin)        for the pair (a, b)
struct rope_args {
  float* x = nullptr; ///< [num_rows][num_heads * head_dim], rows `stride` values apart
  std::size_t stride = 0;
  const float* table = nullptr; ///< from rope_table
  std::uint32_t num_rows = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t num_pairs = 0; ///< at most head_dim / 2
  rope_layout layout = rope_layout::half_split;
};

} // namespace paceline::device
