#include "gpu/streamed_products.hpp"

#include "gpu/pieces.hpp"
#include "gpu/product_inputs.hpp"
#include "gpu/split_columns.hpp"
#include "gpu/stream_launch.hpp"

#include <algorithm>
#include <utility>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t sum_threads = 128;

/// Number of tiles of 8 rows of the kernel to use: 1, 2, 4 or 8.
std::uint32_t tiles_for(std::uint32_t num_rows) {
  std::uint32_t num_tiles = 1;
  while (num_tiles * token_tile < num_rows) num_tiles *= 2;
  return num_tiles;
}

/// Number of sums of all splits of a product; for a gated product, of both matrices.
std::size_t num_split_sums(const streamed_params& p) {
  return std::size_t{p.num_splits} * p.num_rows * p.weights.num_rows * (p.up.bytes != nullptr ? 2 : 1);
}

} // namespace

std::byte* streamed_products::room_in(memory& of, std::size_t num_bytes) {
  steps_.make_room(of, num_bytes);
  return of.data();
}

template <class Work>
void streamed_products::for_each_slice(std::uint32_t num_rows, const Work& work) {
  for (std::uint32_t first = 0; first < num_rows; first += streamed_rows)
    work(slice{first, std::min(num_rows - first, streamed_rows)});
}

arranged_rows streamed_products::arrange(const slice& rows, const float* x, std::size_t x_stride,
                                         std::uint32_t num_cols, const device::input_norm& norm) {
  return gpu::arrange(steps_, arranged_, {x + rows.first * x_stride, x_stride, rows.num_rows, num_cols},
                      tiles_for(rows.num_rows), norm);
}

/// Launches products of the same rows. `products` holds the operands and the places of the results; the
/// weights determine the rest. All products are launched before the splits of any are added up, so that no
/// launch waits unnecessarily.
void streamed_products::launch(std::span<streamed_params> products, sums_are sums) {
  cut(products, sums);
  bool beside = false;
  for (const streamed_params& p : products) {
    const std::uint32_t strips_of_warp = p.up.bytes != nullptr ? 1 : stream_strips;
    steps_.launch(stream_kernel_for(p.weights.type, p.x.num_tiles),
                  {pieces(p.weights.num_strips(), stream_warps * strips_of_warp), p.num_splits,
                   stream_warps * 32, stream_shared_bytes(p.weights.type)},
                  p, std::exchange(beside, true));
  }
  if (sums == sums_are::added_here) add_up(products);
}

/// Divides products into splits, and places the sums of those that do not write results directly.
void streamed_products::cut(std::span<streamed_params> products, sums_are sums) {
  const auto leaves_parts = [&](const streamed_params& p) {
    return sums == sums_are::left_in_parts || p.num_splits > 1;
  };
  std::size_t num_partial = 0;
  for (streamed_params& p : products) {
    const column_splits splits = split_columns(p.weights.num_rows, p.weights.num_cols);
    p.num_tiles = tiles_of_strip(p.weights);
    p.tiles_of_split = splits.tiles_of_split;
    p.num_splits = splits.num_splits;
    if (leaves_parts(p)) num_partial += num_split_sums(p);
  }
  if (num_partial == 0) return;
  float* next = reinterpret_cast<float*>(room_in(partial_, num_partial * sizeof(float)));
  for (streamed_params& p : products)
    if (leaves_parts(p)) p.partial = std::exchange(next, next + num_split_sums(p));
}

void streamed_products::add_up(std::span<const streamed_params> products) {
  bool beside = false;
  for (const streamed_params& p : products) {
    if (p.partial == nullptr) continue;
    const float* const up = p.up.bytes != nullptr ? p.partial + num_split_sums(p) / 2 : nullptr;
    const add_splits_params sums{p.partial,          up,  p.act,      p.num_splits, p.num_rows,
                                 p.weights.num_rows, p.y, p.y_stride, p.bias,       p.add};
    steps_.launch(kernel_id::add_splits,
                  {pieces(p.weights.num_rows, sum_threads), p.num_rows, sum_threads, 0}, sums,
                  std::exchange(beside, true));
  }
}

void streamed_products::multiply(const device::matmul_args& args, std::span<const streamed_output> outputs) {
  for_each_slice(args.num_rows, [&](const slice& rows) {
    const arranged_rows x = arrange(rows, args.x, args.x_stride, args.num_cols, {});
    products_.clear();
    for (const streamed_output& output : outputs) {
      streamed_params& params = products_.emplace_back();
      params.weights = *output.weights;
      params.x = x;
      params.num_rows = rows.num_rows;
      params.y = output.to->y + rows.first * output.to->y_stride;
      params.y_stride = output.to->y_stride;
      params.bias = output.to->bias;
      params.add = output.to->add;
    }
    launch(products_, sums_are::added_here);
  });
}

bool streamed_products::can_gate(const streamed_weights& gate, const streamed_weights& up) noexcept {
  return gate.bytes != nullptr && up.bytes != nullptr && gate.type == up.type &&
         gate.num_rows == up.num_rows && gate.num_cols == up.num_cols;
}

void streamed_products::multiply_gated(const device::gated_matmul_args& args, const streamed_weights& gate,
                                       const streamed_weights& up) {
  for_each_slice(args.num_rows, [&](const slice& rows) {
    streamed_params params{};
    params.weights = gate;
    params.up = up;
    params.act = args.act;
    params.num_rows = rows.num_rows;
    params.x = arrange(rows, args.x, args.x_stride, args.num_cols, args.norm);
    params.y = args.out + rows.first * args.out_stride;
    params.y_stride = args.out_stride;
    launch({&params, 1}, sums_are::added_here);
  });
}

void streamed_products::multiply_qkv(const device::qkv_args& args, const streamed_qkv& weights,
                                     const batch_view& batch) {
  const auto heads = [&](const streamed_params& product, const device::qkv_weights& of,
                         std::uint32_t num_heads) {
    return head_products{product.partial, product.num_splits, num_heads, of.bias, of.norm};
  };
  for_each_slice(args.num_rows(), [&](const slice& rows) {
    const arranged_rows x = arrange(rows, args.x, args.x_stride, args.num_cols, args.norm);
    products_.clear();
    for (const streamed_weights* const of : {&weights.q, &weights.k, &weights.v}) {
      streamed_params& params = products_.emplace_back();
      params.weights = *of;
      params.x = x;
      params.num_rows = rows.num_rows;
    }
    launch(products_, sums_are::left_in_parts);
    finish_heads_params params{};
    params.batch = batch;
    params.batch.rows += rows.first;
    params.layer = args.cells;
    params.q = heads(products_[0], args.q, args.num_heads);
    params.k = heads(products_[1], args.k, args.cells.num_heads);
    params.v = heads(products_[2], args.v, args.cells.num_heads);
    const std::size_t first_angle = std::size_t{rows.first} * 2 * args.num_pairs;
    params.table = args.table + first_angle;
    params.query_table = (args.query_table != nullptr ? args.query_table : args.table) + first_angle;
    params.num_pairs = args.num_pairs;
    params.layout = args.layout;
    params.epsilon = args.head_epsilon;
    params.num_rows = rows.num_rows;
    params.out = args.out + rows.first * args.stride();
    params.out_stride = args.stride();
    const std::uint32_t num_heads = args.num_heads + 2 * args.cells.num_heads;
    steps_.launch(kernel_id::finish_heads,
                  {pieces(num_heads, heads_of_block), rows.num_rows, heads_of_block * 32,
                   static_cast<std::uint32_t>(heads_of_block * args.cells.head_dim * sizeof(float))},
                  params);
  });
}

} // namespace paceline::gpu
