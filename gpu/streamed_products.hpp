#pragma once

#include "gpu/kernels/streamed_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"

#include <span>
#include <vector>

namespace paceline::gpu {

/// One product with weights in streaming order.
struct streamed_output {
  const streamed_weights* weights;
  const device::matmul_output* to;
};

/// Launches the products of gpu/kernels/streamed_matmul.cuh, as part of the steps of a queue. One a queue.
class streamed_products {
 public:
  explicit streamed_products(step_queue& steps) : steps_(steps) {}

  /// Products of all rows of `args`, 64 at a time, with each of `outputs`.
  void multiply(const device::matmul_args& args, std::span<const streamed_output> outputs);
  /// Whether `multiply_gated` takes the two: equal in type and shape.
  static bool can_gate(const streamed_weights& gate, const streamed_weights& up) noexcept;
  /// A gated product, whose products never go to memory but in parts.
  void multiply_gated(const device::gated_matmul_args& args, const streamed_weights& gate,
                      const streamed_weights& up);

 private:
  arranged_rows arrange(const float* x, std::size_t x_stride, std::uint32_t num_rows, std::uint32_t num_cols);
  void launch(std::span<streamed_params> products);
  std::byte* room_in(memory& of, std::size_t num_bytes);

  step_queue& steps_;
  memory arranged_; ///< the rows at hand
  memory partial_;  ///< sums of the splits of the products at hand
  std::vector<streamed_params> products_;
};

} // namespace paceline::gpu
