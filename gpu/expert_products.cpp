#include "gpu/expert_products.hpp"

#include "gpu/pieces.hpp"
#include "gpu/split_columns.hpp"
#include "gpu/stream_launch.hpp"
#include "gpu/streamed_products.hpp"

#include <algorithm>
#include <utility>

namespace paceline::gpu {
namespace {

/// Threads of a block in which each thread works on its own.
constexpr std::uint32_t value_threads = 128;
/// Number of blocks that keep a large GPU busy, as in split_columns.
constexpr std::uint32_t enough_blocks = 256;

/// Shape of a launch with a thread for each of the `width` values of each row.
launch_shape over(std::uint32_t width, std::uint32_t num_rows) {
  return {pieces(width, value_threads), num_rows, value_threads, 0};
}

std::uint32_t strips_of_block(const expert_stream_params& p) {
  return stream_warps * (p.up.bytes != nullptr ? 1 : stream_strips);
}

/// Sums of one matrix in all splits.
std::size_t num_split_sums(const expert_stream_params& p) {
  return std::size_t{p.num_splits} * p.pairs.num_pairs * p.weights.num_rows;
}

} // namespace

void expert_products::run(const device::expert_mixture_args& args, const expert_sets& sets) {
  places at;
  at.inner = args.gate->at(0).num_rows();
  at.num_outputs = args.down->at(0).num_rows();
  const expert_pairs pairs = route(args);
  at.products = args.workspace + std::size_t{args.num_rows} * args.routing.num_experts;
  at.outputs = at.products + std::size_t{pairs.num_pairs} * 2 * at.inner;
  at.inputs = at.outputs + std::size_t{pairs.num_pairs} * at.num_outputs;
  multiply_up(args, sets, pairs, at);
  const split_products down = multiply_down(sets, pairs, at);
  steps_.launch(kernel_id::add_experts, over(at.num_outputs, args.num_rows),
                add_experts_params{down.at, down.num_splits, args.num_rows, args.routing.num_used,
                                   at.num_outputs, args.weigh_inputs ? nullptr : pairs.used, args.out,
                                   args.out_stride, args.add});
}

/// Selects the experts of each row, and sorts the pairs of several rows.
expert_pairs expert_products::route(const device::expert_mixture_args& args) {
  const device::expert_routing& by = args.routing;
  const std::uint32_t num_pairs = args.num_rows * by.num_used;
  const std::size_t of_used = num_pairs * sizeof(device::used_expert),
                    of_order = num_pairs * sizeof(std::uint32_t);
  steps_.make_room(pairs_, of_used + of_order + by.num_experts * sizeof(std::uint32_t));
  auto* const used = reinterpret_cast<device::used_expert*>(pairs_.data());
  steps_.launch(kernel_id::route_rows, {1, args.num_rows, 32, route_shared_bytes(by)},
                route_rows_params{args.workspace, by, used});
  if (args.num_rows == 1) return {used, nullptr, nullptr, num_pairs, by.num_experts};
  auto* const order = reinterpret_cast<std::uint32_t*>(pairs_.data() + of_used);
  auto* const counts = reinterpret_cast<std::uint32_t*>(pairs_.data() + of_used + of_order);
  steps_.launch(kernel_id::sort_pairs, {pieces(by.num_experts, sort_warps), 1, sort_warps * 32, 0},
                sort_pairs_params{used, num_pairs, by.num_experts, order, counts});
  return {used, order, counts, num_pairs, by.num_experts};
}

expert_products::pair_inputs expert_products::inputs_of(const device::expert_mixture_args& args,
                                                        const expert_pairs& pairs, const places& at) {
  const std::uint32_t num_planes = args.two_planes ? 2 : 1, num_used = args.routing.num_used;
  if (!args.weigh_inputs)
    return {{args.x, args.x_stride, args.num_rows, args.num_cols}, num_used, num_planes, {}, {}};
  steps_.launch(kernel_id::weigh_rows, over(args.num_cols, pairs.num_pairs),
                weigh_rows_params{args.x, args.x_stride, pairs.used, num_used, args.num_cols, at.inputs});
  return {{at.inputs, args.num_cols, pairs.num_pairs, args.num_cols}, 1, num_planes, {}, {}};
}

/// Gate and up of every pair, then the activation, which overwrites the gate.
void expert_products::multiply_up(const device::expert_mixture_args& args, const expert_sets& sets,
                                  const expert_pairs& pairs, const places& at) {
  const std::size_t stride = 2 * std::size_t{at.inner};
  pair_inputs inputs = inputs_of(args, pairs, at);
  const streamed_weights& up = sets.up->at(0).streamed();
  if (streamed_products::can_gate(sets.gate->at(0).streamed(), up)) {
    expert_stream_params product = stream_params(*sets.gate, pairs, inputs);
    product.up = up;
    product.up_strides = sets.up->strides();
    product.act = args.act;
    product.y = at.products;
    product.y_up = at.products + at.inner;
    product.y_stride = stride;
    divide(product);
    stream(product);
    return add_up(product);
  }
  multiply(*sets.gate, pairs, inputs, at.products, stride);
  multiply(*sets.up, pairs, inputs, at.products + at.inner, stride);
  steps_.launch(
      kernel_id::glu, over(at.inner, pairs.num_pairs),
      glu_params{at.products, at.products + at.inner, stride, at.products, stride, at.inner, args.act});
}

expert_products::split_products expert_products::multiply_down(const expert_sets& sets,
                                                               const expert_pairs& pairs, const places& at) {
  pair_inputs inputs{{at.products, 2 * std::size_t{at.inner}, pairs.num_pairs, at.inner}, 1, 1, {}, {}};
  if (!sets.down->at(0).is_streamed()) {
    multiply_stored(*sets.down, pairs, inputs, at.outputs, at.num_outputs);
    return {at.outputs, 1};
  }
  expert_stream_params product = stream_params(*sets.down, pairs, inputs);
  product.y = at.outputs;
  product.y_stride = at.num_outputs;
  divide(product);
  stream(product);
  if (product.num_blocks == 1) return {at.outputs, 1};
  return {product.partial, product.num_splits};
}

void expert_products::multiply(const cuda_matrix_set& set, const expert_pairs& pairs, pair_inputs& inputs,
                               float* y, std::size_t y_stride) {
  if (!set.at(0).is_streamed()) return multiply_stored(set, pairs, inputs, y, y_stride);
  expert_stream_params product = stream_params(set, pairs, inputs);
  product.y = y;
  product.y_stride = y_stride;
  divide(product);
  stream(product);
  add_up(product);
}

void expert_products::multiply_stored(const cuda_matrix_set& set, const expert_pairs& pairs,
                                      pair_inputs& inputs, float* y, std::size_t y_stride) {
  expert_matmul_params product{};
  product.weights = set.at(0).rows();
  product.strides = set.strides();
  product.num_planes = inputs.num_planes;
  product.x = inputs.rows.x;
  product.x_stride = inputs.rows.stride;
  product.pairs_of_row = inputs.pairs_of_row;
  product.pairs = pairs;
  product.y = y;
  product.y_stride = y_stride;
  const std::uint32_t num_outputs = product.weights.num_rows;
  if (device::is_floating(product.weights.type)) {
    steps_.launch(kernel_id::expert_float,
                  {pieces(num_outputs, float_outputs),
                   most_segments(pairs.num_pairs, pairs.num_experts, float_rows), float_threads,
                   sizeof(float_tile)},
                  product);
    return;
  }
  if (!inputs.quantised) inputs.quantised = quantise(steps_, quantised_, inputs.rows, inputs.num_planes);
  product.quantised = *inputs.quantised;
  steps_.launch(kernel_id::expert_quantised,
                {pieces(num_outputs, matmul_warps),
                 most_segments(pairs.num_pairs, pairs.num_experts, matmul_chains / inputs.num_planes),
                 matmul_warps * 32, matmul_warps * sizeof(chain_terms)},
                product);
}

/// A product without its results' places.
expert_stream_params expert_products::stream_params(const cuda_matrix_set& set, const expert_pairs& pairs,
                                                    pair_inputs& inputs) {
  if (!inputs.arranged)
    inputs.arranged = arrange(steps_, arranged_, inputs.rows, pieces(inputs.rows.num_rows, token_tile));
  expert_stream_params product{};
  product.weights = set.at(0).streamed();
  product.strides = set.strides();
  product.x = *inputs.arranged;
  product.pairs_of_row = inputs.pairs_of_row;
  product.pairs = pairs;
  return product;
}

/// Divides a product into splits. Where the experts that may be used give a GPU enough to do, one block adds
/// up all splits of its outputs; otherwise each split has a block of its own, and its sums a place in memory.
void expert_products::divide(expert_stream_params& product) {
  const column_splits splits = split_columns(product.weights.num_rows, product.weights.num_cols);
  product.num_tiles = tiles_of_strip(product.weights);
  product.tiles_of_split = splits.tiles_of_split;
  product.num_splits = splits.num_splits;
  const std::uint32_t of_expert = pieces(product.weights.num_strips(), strips_of_block(product));
  const std::uint32_t most_used = std::min(product.pairs.num_pairs, product.pairs.num_experts);
  product.num_blocks = most_used * of_expert >= enough_blocks ? 1 : splits.num_splits;
  if (product.num_blocks == 1) return;
  const std::size_t num_sums = num_split_sums(product) * (product.up.bytes != nullptr ? 2 : 1);
  steps_.make_room(partial_, num_sums * sizeof(float));
  product.partial = reinterpret_cast<float*>(partial_.data());
}

void expert_products::stream(const expert_stream_params& product) {
  const std::uint32_t num_segments =
      most_segments(product.pairs.num_pairs, product.pairs.num_experts, expert_rows);
  steps_.launch(expert_kernel_for(product.weights.type),
                {pieces(product.weights.num_strips(), strips_of_block(product)),
                 num_segments * product.num_blocks, stream_warps * 32,
                 stream_shared_bytes(product.weights.type)},
                product);
}

/// Adds up the splits, if blocks have not done so.
void expert_products::add_up(const expert_stream_params& product) {
  if (product.num_blocks == 1) return;
  const float* const up = product.up.bytes != nullptr ? product.partial + num_split_sums(product) : nullptr;
  const std::uint32_t num_outputs = product.weights.num_rows;
  steps_.launch(kernel_id::add_splits, over(num_outputs, product.pairs.num_pairs),
                add_splits_params{product.partial, up, product.act, product.num_splits,
                                  product.pairs.num_pairs, num_outputs, product.y, product.y_stride, nullptr,
                                  false});
}

} // namespace paceline::gpu
