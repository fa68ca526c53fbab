#include "gpu/split_attention.hpp"

#include "gpu/kernels/chain_params.hpp"

#include <algorithm>
#include <bit>

namespace paceline::gpu {
namespace {

kernel_id kernel_for(kv_type type) {
  switch (type) {
  case kv_type::f32:
    return kernel_id::attend_f32;
  case kv_type::bf16:
    return kernel_id::attend_bf16;
  case kv_type::q8:
    return kernel_id::attend_q8;
  case kv_type::f16:
    break;
  }
  return kernel_id::attend_f16;
}

/// The number of queries of the kernel to use: 4, 8, 16 or 32.
std::uint32_t room_for_queries(std::uint32_t num_queries) {
  std::uint32_t room = 4;
  while (room < num_queries) room *= 2;
  return room;
}

static_assert(tile_bytes_for(tile_queries_for(128), 128) <= most_shared_bytes);
static_assert(tile_bytes_for(tile_queries_for(device::max_head_dim), device::max_head_dim) <=
              most_shared_bytes);

} // namespace

attention_shape shape_of(const device::attention_args& args) noexcept {
  return {args.num_heads, args.layer.num_heads, args.layer.head_dim, args.window};
}

split_partials split_attention::room_for(const split_range& range, const attention_shape& shape) {
  steps_.make_room(partials_, partial_bytes(range, shape));
  const std::size_t num_results = std::size_t{range.num_splits} * range.num_rows * shape.num_heads;
  auto* const values = reinterpret_cast<float*>(partials_.data());
  float* const maxima = values + num_results * shape.head_dim;
  return {values, maxima, maxima + num_results};
}

void split_attention::attend_slice(const device::attention_args& args, const tile_slice& slice,
                                   const row_tile* tiles_there, std::uint32_t queries_of_tile,
                                   const batch_view& batch) {
  const attention_shape shape = shape_of(args);
  // Blocks of the additional splits do nothing. Launches and their parameters stay the same until a growing
  // context passes a power of two.
  split_range range = slice.range;
  range.num_splits = std::bit_ceil(range.num_splits);
  if (partial_bytes(range, shape) > most_bytes_) range = slice.range;
  const split_partials partials = room_for(range, shape);
  const std::uint32_t heads = heads_of_tile(shape), heads_of_kv = shape.num_heads / shape.num_kv_heads;
  const std::uint32_t parts = (heads_of_kv + heads - 1) / heads;
  const attend_params attend{batch,
                             args.layer,
                             args.queries,
                             args.query_stride,
                             tiles_there + slice.first_tile,
                             range,
                             partials,
                             args.num_heads,
                             heads,
                             queries_of_tile,
                             args.scale,
                             args.soft_cap,
                             args.window};
  steps_.launch(kernel_for(args.layer.type),
                {parts * shape.num_kv_heads * range.num_splits, slice.num_tiles, split_threads,
                 tile_bytes_for(queries_of_tile, shape.head_dim)},
                attend);
  const merge_attention_params merge{batch.rows,      range,          partials,       args.out,
                                     args.out_stride, args.num_heads, shape.head_dim, args.window};
  steps_.launch(kernel_id::merge_attention,
                {args.num_heads, range.num_rows, merge_threads, sizeof(merge_memory)}, merge);
}

void split_attention::attend_steps(const device::attention_args& args,
                                   std::span<const device::batch_entry> rows, std::span<const row_tile> tiles,
                                   const row_tile* tiles_there, const batch_view& batch) {
  tile_slice all{0, static_cast<std::uint32_t>(tiles.size()), range_over(rows, args.window)};
  all.range.num_rows = static_cast<std::uint32_t>(args.batch->rows.size());
  const std::uint32_t room = room_for_queries(heads_of_tile(shape_of(args)));
  attend_slice(args, all, tiles_there, std::max(room, chain_queries), batch); // the only room of a chain
}

void split_attention::attend(const device::attention_args& args, std::span<const row_tile> tiles,
                             const row_tile* tiles_there, const batch_view& batch) {
  const attention_shape shape = shape_of(args);
  std::uint32_t most_rows = 0;
  for (const row_tile& tile : tiles) most_rows = std::max(most_rows, tile.num_rows);
  const std::uint32_t room = room_for_queries(most_rows * heads_of_tile(shape));
  for (const tile_slice& slice : slice_tiles(*args.batch, tiles, shape, most_bytes_))
    attend_slice(args, slice, tiles_there, room, batch);
}

} // namespace paceline::gpu
