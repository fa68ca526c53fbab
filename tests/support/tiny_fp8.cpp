#include "tests/support/tiny_fp8.hpp"

#include "runtime/device/float16.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::test {

namespace {

constexpr double largest_code_value = 448;

/// The values of the codes that are not negative, in ascending order.
const std::vector<double>& code_values() {
  static const std::vector<double> values = [] {
    std::vector<double> out;
    for (std::uint8_t code = 0; code < 0x7f; ++code) out.push_back(e4m3_value(code));
    return out;
  }();
  return values;
}

std::uint8_t nearest_code(double value) {
  const auto& values = code_values();
  const double magnitude = std::min(std::fabs(value), largest_code_value);
  auto found = std::ranges::lower_bound(values, magnitude);
  if (found != values.begin() && magnitude - found[-1] < *found - magnitude) --found;
  const auto code = static_cast<std::uint8_t>(found - values.begin());
  return std::signbit(value) ? code | 0x80U : code;
}

} // namespace

double e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return code >= 0x80 ? -magnitude : magnitude;
}

fp8_matrix quantise_fp8(std::span<const float> values, std::uint64_t num_rows, std::uint64_t num_cols,
                        fp8_scales scales) {
  const std::uint64_t block_rows = scales == fp8_scales::blocks ? 128
                                   : scales == fp8_scales::rows ? 1
                                                                : num_rows;
  const std::uint64_t block_cols = scales == fp8_scales::blocks ? 128 : num_cols;
  const std::uint64_t grid_rows = (num_rows + block_rows - 1) / block_rows;
  const std::uint64_t grid_cols = (num_cols + block_cols - 1) / block_cols;
  fp8_matrix out;
  if (scales != fp8_scales::one) out.scale_shape = {grid_rows, grid_cols};
  out.scales.resize(grid_rows * grid_cols);
  const auto scale_of = [&](std::size_t i) -> float& {
    return out.scales[i / num_cols / block_rows * grid_cols + i % num_cols / block_cols];
  };
  for (std::size_t i = 0; i < values.size(); ++i)
    scale_of(i) = std::max(scale_of(i), std::fabs(values[i]) / static_cast<float>(largest_code_value));
  if (scales == fp8_scales::rows)
    for (float& scale : out.scales) scale = device::float_of_bf16(device::bf16_of_float(scale));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = scale_of(i);
    const std::uint8_t code = nearest_code(double{values[i]} / scale);
    out.codes.push_back(static_cast<std::byte>(code));
    out.values.push_back(static_cast<float>(e4m3_value(code) * scale));
  }
  return out;
}

std::string quantization_config(fp8_scales scales) {
  if (scales == fp8_scales::blocks)
    return R"({"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",
              "weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})";
  if (scales == fp8_scales::one) return R"({"quant_method":"fp8","activation_scheme":"static"})";
  return R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":
            {"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel",
            "symmetric":true,"dynamic":false},"input_activations":{"num_bits":8,"type":"float","dynamic":true}}},
            "ignore":["lm_head"],"kv_cache_scheme":null})";
}

} // namespace paceline::test
