#include "runtime/model/heads/files/quantise.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace paceline::model {

namespace {

constexpr std::size_t block_values = 32;

/// Writes the scale in 16 bits. Returns its reciprocal, or 0 if the scale is 0 in 16 bits.
float write_scale(float scale, std::byte* to) {
  const std::uint16_t bits = device::f16_of_float(scale);
  std::memcpy(to, &bits, sizeof(bits));
  return device::float_of_f16(bits) == 0 ? 0 : 1 / scale;
}

void write_q8_0(const float* x, std::byte* to) {
  float largest = 0;
  for (std::size_t i = 0; i < block_values; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float factor = write_scale(largest / 127, to);
  for (std::size_t i = 0; i < block_values; ++i)
    to[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::lround(x[i] * factor)));
}

void write_q4_0(const float* x, std::byte* to) {
  float extreme = 0;
  for (std::size_t i = 0; i < block_values; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  const float factor = write_scale(extreme / -8, to);
  const auto code = [&](float value) {
    return static_cast<unsigned>(std::clamp(value * factor + 8.5F, 0.0F, 15.0F));
  };
  for (std::size_t i = 0; i < block_values / 2; ++i)
    to[2 + i] = static_cast<std::byte>(code(x[i]) | code(x[i + block_values / 2]) << 4U);
}

} // namespace

std::vector<std::byte> quantise(std::span<const float> values, device::tensor_type type) {
  PACELINE_CHECK(type == device::tensor_type::q8_0 || type == device::tensor_type::q4_0, "format of a head");
  PACELINE_CHECK(values.size() % block_values == 0, "rows of whole blocks");
  const std::size_t block_bytes = device::traits_of(type)->block_bytes;
  std::vector<std::byte> out(values.size() / block_values * block_bytes);
  for (std::size_t block = 0; block < values.size() / block_values; ++block) {
    const float* const from = values.data() + block * block_values;
    std::byte* const to = out.data() + block * block_bytes;
    type == device::tensor_type::q8_0 ? write_q8_0(from, to) : write_q4_0(from, to);
  }
  return out;
}

} // namespace paceline::model
