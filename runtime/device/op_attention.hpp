#pragma once

#include "runtime/device/op_kv.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// Positions in one split. In every row, splits start at multiples of this number. Several threads may
/// compute different splits of the same row.
inline constexpr std::uint32_t attention_split = 128;

/// Grouped-query attention of every row over the positions of its own sequence that it sees. Keys and values
/// are read as the pool stores them, the row's own included, so `kv_write` must come first. Query head h
/// reads key-value head h / (num_heads / layer.num_heads). A row at position P sees positions 0..P, or the
/// last `window` of these.
///
/// For one row and head, in float32:
/// - score of position j: a chain of fused multiply-adds over d = 0, 1, ..., starting at 0; then, with a q8
///   pool (the keys are int8 codes), times the key scale of position j; then times `scale`; then, with a soft
///   cap, cap * tanh(score * (1 / cap)).
/// - splits: positions are cut at multiples of `attention_split`. In each split, m = max of the scores;
///   p_j = exp(score - m);
///   s = sum of p_j in 16 lanes, lane = j mod 16, positions in order, lanes added in halves (8, 4, 2, 1);
///   acc[d] = chain of fused multiply-adds p_j * value_j[d] in order of j, starting at 0; with a q8 pool the
///   factors are code_j[d] and p_j * (value scale of position j), rounded.
/// - merge: splits are merged in order, beginning with the values of the first one: M = max(m, m'),
///   a = exp(m - M), b = exp(m' - M), s = fma(s, a, s' * b), acc[d] = fma(acc[d], a, acc'[d] * b).
/// - out[d] = acc[d] / s.
/// exp and tanh are those of runtime/device/scalar_math.hpp. So a row's result depends only on the keys and
/// values that it sees, in order of position, and not on slots, blocks, other rows or threads.
struct attention_args {
  const row_batch* batch = nullptr;
  kv_layer layer;
  const float* queries = nullptr; ///< [num_rows][num_heads * head_dim], rows `query_stride` values apart
  std::size_t query_stride = 0;
  float* out = nullptr; ///< [num_rows][num_heads * head_dim], rows `out_stride` values apart
  std::size_t out_stride = 0;
  std::uint32_t num_heads = 0; ///< a multiple of layer.num_heads
  float scale = 1;
  float soft_cap = 0;       ///< 0: none
  std::uint32_t window = 0; ///< 0: every position
};

/// First position that a row at `position` sees.
inline std::uint32_t first_visible(const attention_args& args, token_position position) noexcept {
  return args.window == 0 || position.value < args.window ? 0 : position.value - args.window + 1;
}

} // namespace paceline::device
