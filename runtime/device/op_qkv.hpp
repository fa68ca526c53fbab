#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_rope.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// The weights for a layer's queries, keys or values.
struct qkv_weights {
  const matrix* weights = nullptr; ///< [heads * head_dim][num_cols]
  const float* bias = nullptr;     ///< [heads * head_dim] or none
  /// QK norm: [head_dim], or [heads * head_dim] with `qkv_args::norms_rows`; null: none. Not read for values.
  const float* norm = nullptr;
};

/// Prepares the inputs of attention: applies the layer's norm, computes queries, keys and values of the rows,
/// applies QK norm and rotation, and writes keys and values into their cells. The results have the same bits
/// as those of the default implementation, which calls these ops: `rms_norm`; one `matmul` with three
/// outputs; `rms_norm` of queries and keys, by heads or by rows; `rope` of queries and keys; `kv_write`. A
/// fused implementation need not write keys and values anywhere except into their cells.
struct qkv_args {
  const row_batch* batch = nullptr;
  const float* x = nullptr; ///< [num_rows][num_cols], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_cols = 0;
  input_norm norm;
  bool two_planes = false; ///< as in op_matmul.hpp
  qkv_weights q, k, v;
  std::uint32_t num_heads = 0;        ///< of queries
  float head_epsilon = 0;             ///< of QK norm
  bool norms_rows = false;            ///< QK norm is over all heads of a row together
  const float* table = nullptr;       ///< from rope_table
  const float* query_table = nullptr; ///< from rope_table, for queries; null: `table`
  std::uint32_t num_pairs = 0;        ///< rotated pairs in a head; 0: no rotation, and the table may be null
  rope_layout layout = rope_layout::half_split;
  kv_layer cells;
  /// [num_rows][(num_heads + 2 * cells.num_heads) * head_dim]: receives the queries; the values after the
  /// queries of a row are unspecified.
  float* out = nullptr;

  std::uint32_t num_rows() const noexcept { return static_cast<std::uint32_t>(batch->rows.size()); }
  std::size_t q_size() const noexcept { return std::size_t{num_heads} * cells.head_dim; }
  std::size_t kv_size() const noexcept { return std::size_t{cells.num_heads} * cells.head_dim; }
  /// Values between the starts of two rows of `out`.
  std::size_t stride() const noexcept { return q_size() + 2 * kv_size(); }
};

} // namespace paceline::device
