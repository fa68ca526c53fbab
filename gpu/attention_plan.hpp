#pragma once

#include "gpu/kernels/split_attention_params.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// The part of a layer's attention that does not depend on the rows.
struct attention_shape {
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t window = 0; ///< 0: all positions
};

/// Query heads of one key-value head in a tile: all, or equal parts of them that fit a tile.
std::uint32_t heads_of_tile(const attention_shape& shape) noexcept;

/// Divides the rows of a batch into tiles, in order: as many adjacent rows of one sequence as a tile has room
/// for, limited by the shared memory for the cells of their paths.
std::vector<row_tile> tile_rows(const device::row_batch& batch, const attention_shape& shape);

/// Tiles that are launched together.
struct tile_slice {
  std::uint32_t first_tile = 0;
  std::uint32_t num_tiles = 0;
  split_range range{};
};

/// The splits seen by `rows`, which take the place of one row in turn: `first_row` is 0, `num_rows` 1.
split_range range_over(std::span<const device::batch_entry> rows, std::uint32_t window) noexcept;

/// Bytes of the partial results of the slice's splits.
std::size_t partial_bytes(const split_range& range, const attention_shape& shape) noexcept;

/// Divides tiles into slices with at most `most_bytes` of partial results, or one tile: a long prompt over a
/// long context would need gigabytes. Rows have the same bits however the tiles are divided.
std::vector<tile_slice> slice_tiles(const device::row_batch& batch, std::span<const row_tile> tiles,
                                    const attention_shape& shape, std::size_t most_bytes);

} // namespace paceline::gpu
