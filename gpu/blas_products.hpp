#pragma once

#include "gpu/pieces.hpp"
#include "gpu/step_queue.hpp"
#include "gpu/streamed_products.hpp"
#include "runtime/device/op_matmul.hpp"

#include <deque>
#include <span>
#include <utility>

namespace paceline::gpu {

/// How a product is divided into slabs, which are computed one after another. With these sizes its
/// intermediate data takes about 100 MiB.
struct blas_slabs {
  static constexpr std::uint32_t most_rows = 2048;    ///< rows of x at a time
  static constexpr std::uint32_t most_outputs = 4096; ///< outputs (rows of weights) at a time
  /// Limit for the weights of a slab, in bytes of float16. A slab has at least one strip (16 rows of weights,
  /// gpu/kernels/streamed_layout.hpp), even if the strip is larger.
  static constexpr std::size_t weight_bytes = 32U << 20;
  static constexpr std::size_t workspace_bytes = 32U << 20; ///< as cuBLAS's manual recommends for sm_90

  /// Number of values in a row of float16: `num_cols` rounded up to whole tiles.
  static constexpr std::uint32_t stride_of(std::uint32_t num_cols) {
    return pieces(num_cols, tile_cols) * tile_cols;
  }
  /// Number of outputs in one slab, for a matrix with `num_cols` columns. It is a multiple of a strip's rows.
  static constexpr std::uint32_t outputs_for(std::uint32_t num_cols) {
    const std::size_t fitting = weight_bytes / (std::size_t{stride_of(num_cols)} * 2);
    const std::size_t outputs = fitting < most_outputs ? fitting : most_outputs;
    return static_cast<std::uint32_t>(outputs < strip_rows ? strip_rows : outputs / strip_rows * strip_rows);
  }
};

/// Products of many rows in fast mode (gpu/kernels/sixteen_bit.hpp). Converts weights to float16, one slab of
/// the matrix at a time, and multiplies with cuBLASLt. Commands are issued at once and are never part of a
/// CUDA graph. One object for each queue, used by the queue's thread. Functions throw cuda_failure if CUDA
/// refuses a call.
class blas_products {
 public:
  /// Fast mode uses these products for passes of at least this many rows.
  static constexpr std::uint32_t least_rows = streamed_rows + 1;

  explicit blas_products(step_queue& steps) : steps_(steps), blas_(steps.on()) {}

  /// Computes the products of all rows of `args` with each of `outputs`.
  void multiply(const device::matmul_args& args, std::span<const streamed_output> outputs);

 private:
  /// Rows of x as float16, in device memory.
  struct halved_rows {
    const std::byte* halves = nullptr; ///< [num_rows][stride]
    const float* scales = nullptr;     ///< [num_rows]; a row's products are multiplied by its scale
    std::uint32_t first = 0;           ///< index of the first row among all rows of the pass
    std::uint32_t num_rows = 0;
    std::uint32_t stride = 0; ///< values in a row
  };

  halved_rows halve(const device::matmul_args& args, std::uint32_t first);
  void multiply_slab(const streamed_output& output, const halved_rows& x, std::uint32_t first,
                     std::uint32_t num_outputs);
  const blas_algorithm& algorithm_for(const blas_product& product);

  step_queue& steps_;
  const blas_handle blas_;
  std::deque<std::pair<blas_product, blas_algorithm>> known_; ///< most recently chosen first
  memory rows_;                                               ///< the current rows of x
  memory weights_;                                            ///< the current slab
  memory sums_;                                               ///< the current products
  memory workspace_;
};

} // namespace paceline::gpu
