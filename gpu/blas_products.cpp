#include "gpu/blas_products.hpp"

#include "gpu/kernels/blas_params.hpp"

#include <algorithm>
#include <string>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t finish_threads = 128;
/// Number of shapes whose algorithm is cached. It is enough for the products of a pass with some different
/// prompt lengths.
constexpr std::size_t most_known = 64;

/// Rows of x, of weights and of the result are columns in cuBLASLt's terms.
blas_product product_of(std::uint32_t num_outputs, std::uint32_t num_rows, std::uint32_t stride) {
  return {.a = {blas_type::f16, stride, num_outputs, stride},
          .b = {blas_type::f16, stride, num_rows, stride},
          .d = {blas_type::f32, num_outputs, num_rows, num_outputs},
          .transpose_a = true};
}

} // namespace

const blas_algorithm& blas_products::algorithm_for(const blas_product& product) {
  const auto found = std::ranges::find(known_, product, &std::pair<blas_product, blas_algorithm>::first);
  if (found != known_.end()) return found->second;
  blas_algorithm chosen;
  const device_context& on = steps_.on();
  on.require(on.api.choose_algorithm(chosen, blas_.raw(), product, blas_slabs::workspace_bytes),
             "cublasLtMatmulAlgoGetHeuristic");
  if (known_.size() == most_known) known_.pop_back();
  known_.emplace_front(product, chosen);
  return known_.front().second;
}

blas_products::halved_rows blas_products::halve(const device::matmul_args& args, std::uint32_t first) {
  halved_rows out;
  out.first = first;
  out.num_rows = std::min(args.num_rows - first, blas_slabs::most_rows);
  out.stride = blas_slabs::stride_of(args.num_cols);
  const std::size_t of_halves = std::size_t{out.num_rows} * out.stride * 2;
  steps_.make_room(rows_, of_halves + out.num_rows * sizeof(float));
  auto* const scales = reinterpret_cast<float*>(rows_.data() + of_halves);
  steps_.launch(kernel_id::halve_rows,
                {1, out.num_rows, arrange_threads, arrange_shared_bytes(args.num_cols, false)},
                halve_rows_params{args.x + first * args.x_stride, args.x_stride, args.num_cols, out.stride,
                                  rows_.data(), scales});
  out.halves = rows_.data();
  out.scales = scales;
  return out;
}

/// Outputs `first` .. `first + num_outputs - 1`; the first is the first of a strip.
void blas_products::multiply_slab(const streamed_output& output, const halved_rows& x, std::uint32_t first,
                                  std::uint32_t num_outputs) {
  const streamed_weights& weights = *output.weights;
  const std::uint32_t num_strips = pieces(num_outputs, strip_rows), num_tiles = x.stride / tile_cols;
  const std::uint32_t all_outputs = num_strips * strip_rows; // outputs beyond the matrix are zeros
  steps_.make_room(weights_, std::size_t{all_outputs} * x.stride * 2);
  steps_.make_room(sums_, std::size_t{x.num_rows} * all_outputs * sizeof(float));
  steps_.make_room(workspace_, blas_slabs::workspace_bytes);
  steps_.launch(kernel_id::halve_weights,
                {pieces(num_tiles, halve_threads / 32), num_strips, halve_threads,
                 halve_threads / 32 * halved_tile_bytes},
                halve_weights_params{weights, first / strip_rows, num_tiles, weights_.data()});
  const blas_product product = product_of(all_outputs, x.num_rows, x.stride);
  steps_.multiply(blas_, {product, algorithm_for(product), weights_.data(), x.halves, sums_.data(),
                          workspace_.data(), workspace_.size_bytes()});
  const device::matmul_output& to = *output.to;
  steps_.launch(kernel_id::finish_products,
                {pieces(num_outputs, finish_threads), x.num_rows, finish_threads, 0},
                finish_products_params{reinterpret_cast<const float*>(sums_.data()), all_outputs,
                                       weights.multipliers != nullptr ? weights.multipliers + first : nullptr,
                                       x.scales, num_outputs, to.y + x.first * to.y_stride + first,
                                       to.y_stride, to.bias != nullptr ? to.bias + first : nullptr, to.add});
}

void blas_products::multiply(const device::matmul_args& args, std::span<const streamed_output> outputs) {
  const std::uint32_t most_outputs = blas_slabs::outputs_for(args.num_cols);
  for (std::uint32_t row = 0; row < args.num_rows; row += blas_slabs::most_rows) {
    const halved_rows x = halve(args, row);
    for (const streamed_output& output : outputs)
      for (std::uint32_t first = 0; first < output.weights->num_rows; first += most_outputs)
        multiply_slab(output, x, first, std::min(output.weights->num_rows - first, most_outputs));
  }
}

} // namespace paceline::gpu
