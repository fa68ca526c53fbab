#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::device {

/// Activation function of the gate.
enum class activation : std::uint8_t {
  silu,      ///< x / (1 + exp(-x))
  gelu_tanh, ///< x / (1 + exp(-u)), u = (x * 1.5957691216) * fma(0.044715, x * x, 1): the tanh form of GELU,
             ///< rewritten
  gelu_erf,  ///< x * (x < 0 ? q : 1 - q), q = half of erfc(|x| / sqrt 2); see `gelu_erf_reference`
  sigmoid,   ///< 1 / (1 + exp(-x))
  relu,      ///< x < 0 ? 0 : x
  tanh,      ///< `tanh_reference`
  sigmoid_of_minus, ///< 1 / (1 + exp(x)): 1 minus the sigmoid
};

/// Gated linear unit: out[r][i] = act(gate[r][i]) * up[r][i], each operation rounded to float32. Without
/// `up`, out[r][i] = act(gate[r][i]). `out` may be equal to `gate` or `up`.
struct glu_args {
  const float* gate = nullptr; ///< [num_rows][width], rows `stride` values apart
  const float* up = nullptr;   ///< likewise; null: the activation alone
  std::size_t stride = 0;
  float* out = nullptr; ///< [num_rows][width], rows `out_stride` values apart
  std::size_t out_stride = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t width = 0;
  activation act = activation::silu;
};

} // namespace paceline::device
