#include "gpu/attention_plan.hpp"

#include "gpu/pieces.hpp"

#include <algorithm>

namespace paceline::gpu {
namespace {

/// Splits in which a row sees positions.
struct split_span {
  std::uint32_t begin;
  std::uint32_t end;
};

split_span splits_of(const device::batch_entry& row, std::uint32_t window) {
  const std::uint32_t last = row.position.value;
  const std::uint32_t first = window == 0 || last < window ? 0 : last - window + 1;
  return {first / kv_split, last / kv_split + 1};
}

} // namespace

std::uint32_t heads_of_tile(const attention_shape& shape) noexcept {
  const std::uint32_t of_kv_head = shape.num_heads / shape.num_kv_heads;
  return pieces(of_kv_head, pieces(of_kv_head, tile_queries_for(shape.head_dim)));
}

std::vector<row_tile> tile_rows(const device::row_batch& batch, const attention_shape& shape) {
  const std::uint32_t most_rows = tile_queries_for(shape.head_dim) / heads_of_tile(shape);
  std::vector<row_tile> tiles;
  std::uint32_t path_cells = 0; // of the last tile
  for (std::uint32_t r = 0; r < batch.rows.size(); ++r) {
    const device::batch_entry& row = batch.rows[r];
    path_cells += row.path_length;
    if (!tiles.empty() && tiles.back().num_rows < most_rows && path_cells <= most_path_cells &&
        row.sequence == batch.rows[r - 1].sequence) {
      ++tiles.back().num_rows;
      continue;
    }
    tiles.push_back({r, 1});
    path_cells = row.path_length;
  }
  return tiles;
}

split_range range_over(std::span<const device::batch_entry> rows, std::uint32_t window) noexcept {
  split_span all = splits_of(rows.front(), window);
  for (const device::batch_entry& row : rows) {
    const split_span of_row = splits_of(row, window);
    all = {std::min(all.begin, of_row.begin), std::max(all.end, of_row.end)};
  }
  return {0, 1, all.begin, all.end - all.begin};
}

std::size_t partial_bytes(const split_range& range, const attention_shape& shape) noexcept {
  return std::size_t{range.num_splits} * range.num_rows * shape.num_heads * (shape.head_dim + 2) *
         sizeof(float);
}

std::vector<tile_slice> slice_tiles(const device::row_batch& batch, std::span<const row_tile> tiles,
                                    const attention_shape& shape, std::size_t most_bytes) {
  std::vector<tile_slice> slices;
  for (std::uint32_t t = 0; t < tiles.size(); ++t) {
    const split_range span =
        range_over(batch.rows.subspan(tiles[t].first_row, tiles[t].num_rows), shape.window);
    if (!slices.empty()) {
      tile_slice& last = slices.back();
      const std::uint32_t begin = std::min(span.first_split, last.range.first_split);
      const std::uint32_t end =
          std::max(span.first_split + span.num_splits, last.range.first_split + last.range.num_splits);
      const split_range both{last.range.first_row, last.range.num_rows + tiles[t].num_rows, begin,
                             end - begin};
      if (partial_bytes(both, shape) <= most_bytes) {
        last = {last.first_tile, last.num_tiles + 1, both};
        continue;
      }
    }
    slices.push_back({t, 1, {tiles[t].first_row, tiles[t].num_rows, span.first_split, span.num_splits}});
  }
  return slices;
}

} // namespace paceline::gpu
