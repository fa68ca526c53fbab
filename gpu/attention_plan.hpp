#pragma once

#include "gpu/kernels/split_attention_params.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// What attention of a layer looks like, whatever the rows.
struct attention_shape {
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t window = 0; ///< 0: every position
};

/// Query heads of one key-value head that a tile has: all, or equal parts of them that fit a tile.
std::uint32_t heads_of_tile(const attention_shape& shape) noexcept;

/// Cuts the rows of a batch into tiles, in order: as many neighbours of one sequence as a tile has queries
/// for, and shared memory for the cells of their paths.
std::vector<row_tile> tile_rows(const device::row_batch& batch, const attention_shape& shape);

/// Tiles that are launched together.
struct tile_slice {
  std::uint32_t first_tile = 0;
  std::uint32_t num_tiles = 0;
  split_range range{};
};

/// What `rows`, one after the other in the place of one row, see of their splits: `first_row` is 0,
/// `num_rows` 1.
split_range range_over(std::span<const device::batch_entry> rows, std::uint32_t window) noexcept;

/// Bytes of what the slice's splits leave to be merged.
std::size_t partial_bytes(const split_range& range, const attention_shape& shape) noexcept;

/// Cuts tiles into slices of at most `most_bytes` of partial results, a slice having one tile at least: a
/// long prompt over a long context would have gigabytes. Rows have the same bits whatever the slices.
std::vector<tile_slice> slice_tiles(const device::row_batch& batch, std::span<const row_tile> tiles,
                                    const attention_shape& shape, std::size_t most_bytes);

} // namespace paceline::gpu
