#pragma once

#include "gpu/kernels/streamed_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_qkv.hpp"

#include <span>
#include <vector>

namespace paceline::gpu {

/// One product with weights in streaming order.
struct streamed_output {
  const streamed_weights* weights;
  const device::matmul_output* to;
};

/// The matrices for the inputs of an attention layer.
struct streamed_qkv {
  streamed_weights q, k, v;
};

/// Launches the kernels of gpu/kernels/streamed_matmul.cuh through a step queue. One object for each queue.
class streamed_products {
 public:
  explicit streamed_products(step_queue& steps) : steps_(steps) {}

  /// Computes the products of all rows of `args`, 64 at a time, with each of `outputs`.
  void multiply(const device::matmul_args& args, std::span<const streamed_output> outputs);
  /// True if `multiply_gated` supports the two matrices: they are streamed, and equal in type and shape.
  static bool can_gate(const streamed_weights& gate, const streamed_weights& up) noexcept;
  /// Computes a gated product. The products of the gate and of `up` are not written to memory, except as
  /// partial sums.
  void multiply_gated(const device::gated_matmul_args& args, const streamed_weights& gate,
                      const streamed_weights& up);
  /// Computes queries, keys and values. The kernel that adds their splits also does the rest of the op: bias,
  /// QK norm, rotation and the copy to the cells. `batch` has all rows of the op.
  void multiply_qkv(const device::qkv_args& args, const streamed_qkv& weights, const batch_view& batch);

 private:
  /// Rows of an op for which the weights are read once; at most `streamed_rows`.
  struct slice {
    std::uint32_t first;
    std::uint32_t num_rows;
  };
  template <class Work>
  static void for_each_slice(std::uint32_t num_rows, const Work& work);
  /// Whether the splits of a product are summed here or by a later kernel.
  enum class sums_are { added_here, left_in_parts };

  arranged_rows arrange(const slice& rows, const float* x, std::size_t x_stride, std::uint32_t num_cols,
                        const device::input_norm& norm);
  void launch(std::span<streamed_params> products, sums_are sums);
  void cut(std::span<streamed_params> products, sums_are sums);
  void add_up(std::span<const streamed_params> products);
  std::byte* room_in(memory& of, std::size_t num_bytes);

  step_queue& steps_;
  memory arranged_; ///< the current rows
  memory partial_;  ///< partial sums of the current products
  std::vector<streamed_params> products_;
};

} // namespace paceline::gpu
