#pragma once

#include "gpu/kernels/split_attention_params.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::gpu {

/// The properties of a layer's attention that do not depend on the rows.
struct attention_shape {
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t window = 0; ///< 0: all positions
};

/// Number of query heads of one key-value head in a tile. If a tile has no room for all of them, they are
/// divided among as few tiles as possible, in equal parts (rounded up).
std::uint32_t heads_of_tile(const attention_shape& shape) noexcept;

/// Divides the rows of a batch into tiles, in order. A tile has as many adjacent rows of one sequence as fit.
/// The limits are for its queries (`tile_queries_for`) and for the cells on its rows' paths
/// (`most_path_cells`).
std::vector<row_tile> tile_rows(const device::row_batch& batch, const attention_shape& shape);

/// Tiles that are launched together.
struct tile_slice {
  std::uint32_t first_tile = 0;
  std::uint32_t num_tiles = 0;
  split_range range{};
};

/// The range from the first to the last split (`kv_split` positions) that any of `rows` sees. It is for
/// launches of one row (`first_row` 0, `num_rows` 1) that process `rows` one after another. `window`: as in
/// attention_shape.
split_range range_over(std::span<const device::batch_entry> rows, std::uint32_t window) noexcept;

/// Bytes of the partial results of the rows and splits in `range`.
std::size_t partial_bytes(const split_range& range, const attention_shape& shape) noexcept;

/// Divides tiles into slices. A slice has at most `most_bytes` of partial results, or is a single tile that
/// needs more. Without slices a long prompt over a long context would need gigabytes. The division does not
/// change the bits of any result.
std::vector<tile_slice> slice_tiles(const device::row_batch& batch, std::span<const row_tile> tiles,
                                    const attention_shape& shape, std::size_t most_bytes);

} // namespace paceline::gpu
