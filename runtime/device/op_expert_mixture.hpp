#pragma once

#include "runtime/device/expert_routing.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// A mixture of experts in place of a feed-forward block. op_matmul.hpp defines the products, op_glu.hpp
/// defines `act`, and expert_routing.hpp defines, from the logits l, the expert e_s and the weight w_s of
/// each slot s. For each row x, which is first normalised if `norm` has a weight:
///
///     l = x * router^T (+ router_bias)
///     h_s = act(x * gate[e_s]^T) * (x * up[e_s]^T)
///     y_s = h_s * down[e_s]^T
///     y = w_0 * y_0, then y = y + w_s * y_s in the order of slots, each operation rounded
///     out = y; with `add`, out = out + y
///
/// With `weigh_inputs` (Llama 4) the experts get x * w_s, and the outputs are added with weight 1.
///
/// A row's result is defined by this row alone, so it has the same bits whatever the other rows are. If
/// several rows use an expert, a device should read its weights only once. `out` may be `x`, with the same
/// stride; other buffers must not overlap.
///
/// Sources: Shazeer et al., "Outrageously Large Neural Networks" (arXiv:1701.06538), section 2.
struct expert_mixture_args {
  const float* x = nullptr; ///< [num_rows][num_cols], rows `x_stride` values apart
  std::size_t x_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_cols = 0;
  input_norm norm;
  bool two_planes = false;            ///< as in op_matmul.hpp; for gate and up only
  const matrix* router = nullptr;     ///< [num_experts][num_cols], of a floating-point type
  const float* router_bias = nullptr; ///< [num_experts] or none
  expert_routing routing;
  const matrix_set* gate = nullptr; ///< [num_experts] matrices of [inner][num_cols]
  const matrix_set* up = nullptr;   ///< likewise
  const matrix_set* down = nullptr; ///< [num_experts] matrices of [num_outputs][inner]
  activation act = activation::silu;
  bool weigh_inputs = false;
  float* workspace = nullptr; ///< num_rows * `expert_values_per_row` floats, contents unspecified
  float* out = nullptr;       ///< [num_rows][num_outputs], rows `out_stride` values apart
  std::size_t out_stride = 0;
  bool add = false;
};

/// Number of floats of workspace for each row: the logits, and for each slot the products of gate and up, the
/// output and, with `weigh_inputs`, the input. `num_weighed_inputs`: num_cols with `weigh_inputs`, else 0.
constexpr std::size_t expert_values_per_row(const expert_routing& routing, std::uint32_t inner,
                                            std::uint32_t num_outputs, std::uint32_t num_weighed_inputs = 0) {
  const std::size_t of_slot = 2 * std::size_t{inner} + num_outputs + num_weighed_inputs;
  return routing.num_experts + routing.num_used * of_slot;
}

/// Throws check_failure if the counts of `routing` break the limits of expert_routing.hpp, or if the shapes
/// of the weights do not fit each other, the number of experts and `num_cols`.
void check_mixture(const expert_mixture_args& args);

} // namespace paceline::device
