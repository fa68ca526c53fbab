#pragma once

#include "gpu/kernels/dialect.cuh"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/scalar_math.hpp"

#include <cmath>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The activation function of the gate, rounded as in runtime/device/op_glu.hpp.
PACELINE_DEVICE float activate(device::activation act, float x) {
  using c = device::gelu_constants;
  if (act == device::activation::gelu_erf) return device::gelu_erf_reference(x);
  if (act == device::activation::relu) return x < 0.0F ? 0.0F : x;
  if (act == device::activation::tanh) return device::tanh_reference(x);
  if (act == device::activation::sigmoid_of_minus) return 1.0F / (1.0F + device::exp_reference(x));
  if (act == device::activation::sigmoid) return 1.0F / (1.0F + device::exp_reference(-x));
  const float u =
      act == device::activation::silu ? x : (x * c::twice_root_two_over_pi) * std::fma(c::cubic, x * x, 1.0F);
  return x / (1.0F + device::exp_reference(-u));
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
