#pragma once

#include "gpu/kernels/params.hpp"

// The contract of attention under `arithmetic::sixteen_bit` and `fast`. It defines other sums than
// runtime/device/op_attention.hpp (docs/decisions/0504 says why there are two contracts). Both contracts
// share the positions that a row sees and the slots of these positions; op_attention.hpp defines them.
//
// **Splits.** Positions are divided at multiples of `kv_split`, for all rows alike. This is Flash-Decoding
// (Dao, Haziza, Massa, Sizov, 2023) with splits that do not move when the context grows. For one row, head
// and split i, in float32, over the positions j of the split that the row sees (in a chain of fma(a, b, .)
// the dot is the previous result):
//
// clang-format off
//     s_j      = chain of fma(query[d], key_j[d], .) over d = 0, 1, ..., from 0
//                q8: times j's key scale; then times `scale`; with a soft cap cap * tanh(s_j * (1 / cap))
//     m_i      = max s_j
//     p_j      = exp(s_j - m_i)
//     l_i      = sum of p_j in 32 lanes, lane = j mod 32, positions in order; lanes added in halves (16, 8, 4, 2, 1)
//     acc_i[d] = chain of fma(p_j, value_j[d], .) in order of j, from 0
//                q8: fma(p_j * j's value scale, code_j[d], .), where the first product is rounded
// clang-format on
//
// **Merge** of the row's splits, ascending: m = max m_i, w_i = exp(m_i - m),
//
//     l = chain of fma(l_i, w_i, .), acc[d] = chain of fma(acc_i[d], w_i, .), both from 0
//     out[d] = acc[d] / l
//
// Every step is rounded once; exp and tanh are those of runtime/device/scalar_math.hpp. No step depends on
// other rows, slots, blocks or the number of splits of a launch: a row has the same bits in every launch, and
// on every GPU. tests/gpu/kernels/split_attention_reference.cpp derives the error bounds relative to exact
// sums.

namespace paceline::gpu {

/// Positions in a split. The size was estimated, not measured: at head_dim 128 a split of one key-value head
/// has 64 KiB of F16 cells, and 1024 positions with 8 key-value heads give 64 thread blocks.
inline constexpr std::uint32_t kv_split = 128;
/// Threads of a block of attention: one for each position, then one for each dimension.
inline constexpr std::uint32_t split_threads = 128;
/// Threads of a block that merges.
inline constexpr std::uint32_t merge_threads = 128;

/// Largest total number of cells on tree paths of the rows in one tile.
inline constexpr std::uint32_t most_path_cells = 64;
/// Largest number of cells that a tile reads in a split: first those whose slots equal their positions, then
/// those on tree paths.
inline constexpr std::uint32_t tile_columns = kv_split + most_path_cells;
/// Dimensions of a key, or positions of values, that a thread loads at a time.
inline constexpr std::uint32_t kv_batch = 16;

/// A *query* is one head of one row. A tile has the queries for which a thread block reads the same cells
/// once: at most 32, or 16 with heads of more than 128 dimensions.
inline constexpr std::uint32_t most_tile_queries = 32;
constexpr std::uint32_t tile_queries_for(std::uint32_t head_dim) {
  return head_dim <= 128 ? most_tile_queries : most_tile_queries / 2;
}

/// Consecutive rows of one sequence.
struct row_tile {
  std::uint32_t first_row;
  std::uint32_t num_rows;
};

/// The positions [first, end) of the current split that a row sees, counted from the split's beginning; none
/// if first >= end.
struct seen_positions {
  std::uint32_t first;
  /// Positions before this one are in the slots of the same number, the others on the row's path.
  std::uint32_t linear;
  std::uint32_t end;
  std::uint32_t path_column; ///< column of the first position on the path
  std::uint32_t path_at;     ///< index of that position's slot in `batch_view::paths`
};

/// In shared memory: data about a tile and a split. It is followed by queries [queries][padded head_dim],
/// padded with 0, and scores [queries][tile_columns].
struct alignas(16) tile_memory {
  std::uint32_t masks[tile_columns]; ///< bit q: query q sees the column
  std::size_t cells[tile_columns];   ///< as kv_layer::scale_index
  seen_positions rows[most_tile_queries];
  std::uint32_t num_linear;  ///< columns before those on paths
  std::uint32_t num_columns; ///< a multiple of kv_batch; no query sees the columns that fill it up
};

constexpr std::uint32_t padded_head_dim(std::uint32_t head_dim) {
  return (head_dim + kv_batch - 1) / kv_batch * kv_batch;
}
constexpr std::uint32_t tile_bytes_for(std::uint32_t num_queries, std::uint32_t head_dim) {
  return static_cast<std::uint32_t>(sizeof(tile_memory) + std::size_t{num_queries} *
                                                              (padded_head_dim(head_dim) + tile_columns) *
                                                              sizeof(float));
}

/// Partial results of the splits before the merge, [num_splits][num_rows][num_heads], with values [head_dim]
/// each.
struct split_partials {
  float* values; ///< acc
  float* maxima; ///< m
  float* sums;   ///< l
};

/// Rows [first_row, first_row + num_rows) and splits [first_split, first_split + num_splits) of a launch.
struct split_range {
  std::uint32_t first_row;
  std::uint32_t num_rows;
  std::uint32_t first_split;
  std::uint32_t num_splits;
};

/// One block for each tile, split and group of heads of one key-value head; grid in blocks (groups of heads *
/// key-value heads * splits, tiles). One kernel for each type of cell. Blocks of splits after the
/// rows' last positions do nothing.
struct attend_params {
  batch_view batch;
  device::kv_layer layer;
  const float* queries;
  std::size_t query_stride;
  const row_tile* tiles;
  split_range range;
  split_partials out;
  std::uint32_t num_heads;       ///< of queries
  std::uint32_t heads_of_tile;   ///< of one key-value head
  std::uint32_t queries_of_tile; ///< queries for which a tile has room: 4, 8, 16 or 32
  float scale;
  float soft_cap;
  std::uint32_t window;
};

/// One block for each head of a row; grid (query heads, rows).
struct merge_attention_params {
  const device::batch_entry* rows; ///< the batch's
  split_range range;
  split_partials from;
  float* out;
  std::size_t out_stride;
  std::uint32_t num_heads;
  std::uint32_t head_dim;
  std::uint32_t window;
};

/// In shared memory: the splits of a row that are being merged.
struct merge_memory {
  float weights[merge_threads];
  float sums[merge_threads];
  float warp_max[merge_threads / 32];
};

} // namespace paceline::gpu
