#include "gpu/streamed_products.hpp"

#include "gpu/split_columns.hpp"
#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t sum_threads = 128;

std::uint32_t pieces(std::size_t num, std::size_t of) {
  return static_cast<std::uint32_t>((num + of - 1) / of);
}

/// Tiles of 8 rows that kernels are made for: 1, 2, 4 or 8.
std::uint32_t tiles_for(std::uint32_t num_rows) {
  std::uint32_t num_tiles = 1;
  while (num_tiles * token_tile < num_rows) num_tiles *= 2;
  return num_tiles;
}

kernel_id kernel_for(device::tensor_type type) {
  using device::tensor_type;
  switch (type) {
  case tensor_type::q4_0:
    return kernel_id::stream_q4_0;
  case tensor_type::q4_1:
    return kernel_id::stream_q4_1;
  case tensor_type::q4_k:
    return kernel_id::stream_q4_k;
  case tensor_type::q5_0:
    return kernel_id::stream_q5_0;
  case tensor_type::q5_k:
    return kernel_id::stream_q5_k;
  case tensor_type::q6_k:
    return kernel_id::stream_q6_k;
  case tensor_type::q8_0:
    return kernel_id::stream_q8_0;
  case tensor_type::f16:
    return kernel_id::stream_f16;
  case tensor_type::bf16:
    return kernel_id::stream_bf16;
  default:
    PACELINE_CHECK(false, "weights of type " + std::to_string(static_cast<int>(type)) + " are not streamed");
  }
}

/// What a launch may have of shared memory without asking for more.
constexpr std::uint32_t most_shared_bytes = 48 * 1024;

constexpr std::uint32_t shared_bytes_for(device::tensor_type type) {
  return stream_warps * stream_strips * streamed_layout_of(type).slot_bytes();
}
static_assert(shared_bytes_for(device::tensor_type::q4_0) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q4_1) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q4_k) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q5_0) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q5_k) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q6_k) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::q8_0) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::f16) <= most_shared_bytes);
static_assert(shared_bytes_for(device::tensor_type::bf16) <= most_shared_bytes);

} // namespace

std::byte* streamed_products::room_in(memory& of, std::size_t num_bytes) {
  steps_.make_room(of, num_bytes);
  return of.data();
}

arranged_rows streamed_products::arrange(const float* x, std::size_t x_stride, std::uint32_t num_rows,
                                         std::uint32_t num_cols) {
  arranged_rows out;
  out.num_units = pieces(num_cols, split_cols) * (split_cols / unit_cols);
  out.num_tiles = tiles_for(num_rows);
  const std::size_t num_tiles = std::size_t{out.num_units} * out.num_tiles;
  const std::size_t of_halves = num_tiles * token_tile * unit_cols * 2;
  const std::size_t of_sums = num_tiles * token_tile * sizeof(float);
  const std::uint32_t all_rows = out.num_tiles * token_tile;
  std::byte* const at = room_in(arranged_, of_halves + of_sums + all_rows * sizeof(float));
  out.halves = at;
  out.sums = reinterpret_cast<float*>(at + of_halves);
  out.scales = reinterpret_cast<float*>(at + of_halves + of_sums);
  const arrange_rows_params params{x, x_stride, num_rows, num_cols, out};
  steps_.launch(kernel_id::arrange_rows,
                {pieces(out.num_units, arrange_threads), all_rows, arrange_threads,
                 arrange_threads * sizeof(std::uint32_t)},
                params);
  return out;
}

/// `params` says what is multiplied and where to; the rest follows from the weights.
void streamed_products::launch(streamed_params params) {
  const streamed_weights& weights = params.weights;
  const bool is_gated = params.up.bytes != nullptr;
  const column_splits splits = split_columns(weights.num_rows, weights.num_cols);
  params.num_tiles = pieces(weights.num_cols, streamed_layout_of(weights.type).span_cols()) *
                     streamed_layout_of(weights.type).tiles_of_span;
  params.tiles_of_split = splits.tiles_of_split;
  params.num_splits = splits.num_splits;
  const std::size_t num_partial = std::size_t{splits.num_splits} * params.num_rows * weights.num_rows;
  if (splits.num_splits > 1)
    params.partial =
        reinterpret_cast<float*>(room_in(partial_, (is_gated ? 2 : 1) * num_partial * sizeof(float)));
  steps_.launch(kernel_for(weights.type),
                {pieces(weights.num_strips(), stream_warps * (is_gated ? 1 : stream_strips)),
                 splits.num_splits, stream_warps * 32, shared_bytes_for(weights.type)},
                params);
  if (splits.num_splits == 1) return;
  const add_splits_params sums{params.partial,  is_gated ? params.partial + num_partial : nullptr,
                               params.act,      splits.num_splits,
                               params.num_rows, weights.num_rows,
                               params.y,        params.y_stride,
                               params.bias,     params.add};
  steps_.launch(kernel_id::add_splits,
                {pieces(weights.num_rows, sum_threads), params.num_rows, sum_threads, 0}, sums);
}

void streamed_products::launch_product(const streamed_output& output, const arranged_rows& x,
                                       std::uint32_t first_row, std::uint32_t num_rows) {
  streamed_params params{};
  params.weights = *output.weights;
  params.x = x;
  params.num_rows = num_rows;
  params.y = output.to->y + first_row * output.to->y_stride;
  params.y_stride = output.to->y_stride;
  params.bias = output.to->bias;
  params.add = output.to->add;
  launch(params);
}

void streamed_products::multiply(const device::matmul_args& args, std::span<const streamed_output> outputs) {
  for (std::uint32_t first = 0; first < args.num_rows; first += streamed_rows) {
    const std::uint32_t num_rows = std::min(args.num_rows - first, streamed_rows);
    const arranged_rows x = arrange(args.x + first * args.x_stride, args.x_stride, num_rows, args.num_cols);
    for (const streamed_output& output : outputs) launch_product(output, x, first, num_rows);
  }
}

bool streamed_products::can_gate(const streamed_weights& gate, const streamed_weights& up) noexcept {
  return gate.bytes != nullptr && up.bytes != nullptr && gate.type == up.type &&
         gate.num_rows == up.num_rows && gate.num_cols == up.num_cols;
}

void streamed_products::multiply_gated(const device::gated_matmul_args& args, const streamed_weights& gate,
                                       const streamed_weights& up) {
  for (std::uint32_t first = 0; first < args.num_rows; first += streamed_rows) {
    streamed_params params{};
    params.weights = gate;
    params.up = up;
    params.act = args.act;
    params.num_rows = std::min(args.num_rows - first, streamed_rows);
    params.x = arrange(args.x + first * args.x_stride, args.x_stride, params.num_rows, args.num_cols);
    params.y = args.out + first * args.out_stride;
    params.y_stride = args.out_stride;
    launch(params);
  }
}

} // namespace paceline::gpu
