#include "gpu/attention_plan.hpp"

#include <algorithm>

namespace paceline::gpu {
namespace {

std::uint32_t pieces(std::uint32_t num, std::uint32_t of) { return (num + of - 1) / of; }

/// Splits of which a row sees something.
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

std::size_t partial_bytes(const split_range& range, const attention_shape& shape) noexcept {
  return std::size_t{range.num_splits} * range.num_rows * shape.num_heads * (shape.head_dim + 2) *
         sizeof(float);
}

std::vector<tile_slice> slice_tiles(const device::row_batch& batch, std::span<const row_tile> tiles,
                                    const attention_shape& shape, std::size_t most_bytes) {
  std::vector<tile_slice> slices;
  for (std::uint32_t t = 0; t < tiles.size(); ++t) {
    split_span span = splits_of(batch.rows[tiles[t].first_row], shape.window);
    for (const device::batch_entry& row : batch.rows.subspan(tiles[t].first_row, tiles[t].num_rows)) {
      const split_span of_row = splits_of(row, shape.window);
      span = {std::min(span.begin, of_row.begin), std::max(span.end, of_row.end)};
    }
    if (!slices.empty()) {
      tile_slice& last = slices.back();
      const std::uint32_t begin = std::min(span.begin, last.range.first_split);
      const std::uint32_t end = std::max(span.end, last.range.first_split + last.range.num_splits);
      const split_range both{last.range.first_row, last.range.num_rows + tiles[t].num_rows, begin,
                             end - begin};
      if (partial_bytes(both, shape) <= most_bytes) {
        last = {last.first_tile, last.num_tiles + 1, both};
        continue;
      }
    }
    slices.push_back({t, 1, {tiles[t].first_row, tiles[t].num_rows, span.begin, span.end - span.begin}});
  }
  return slices;
}

} // namespace paceline::gpu
