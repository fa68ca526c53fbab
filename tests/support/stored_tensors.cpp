#include "tests/support/stored_tensors.hpp"

#include "runtime/device/float16.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace paceline::test {

namespace {

using device::tensor_type;

/// Where the float16 numbers of a block lie.
std::vector<std::size_t> f16_fields(tensor_type type) {
  switch (type) {
  case tensor_type::q4_1:
  case tensor_type::q5_1:
  case tensor_type::q4_k:
  case tensor_type::q5_k:
    return {0, 2};
  case tensor_type::q2_k:
    return {80, 82};
  case tensor_type::q3_k:
    return {108};
  case tensor_type::q6_k:
    return {208};
  default:
    return {0};
  }
}

void put_u16(std::byte* at, std::uint16_t value) { std::memcpy(at, &value, sizeof value); }

void fill_floats(stored_tensor& tensor, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.05f);
  const std::size_t size = device::traits_of(tensor.type)->block_bytes;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += size) {
    const float value = normal(random);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (tensor.type == tensor_type::f32)
      std::memcpy(&tensor.bytes[at], &bits, sizeof bits);
    else if (tensor.type == tensor_type::f16)
      put_u16(&tensor.bytes[at], device::f16_of_float(value));
    else
      put_u16(&tensor.bytes[at], static_cast<std::uint16_t>(bits >> 16));
  }
}

void fill_scales(stored_tensor& tensor, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.01f);
  const auto any = [&] {
    const unsigned kind = random() % 16;
    return kind == 0 ? 0.0f : kind == 1 ? normal(random) * 0x1p-12f : normal(random);
  };
  for (std::size_t at = 0; at < tensor.bytes.size(); at += device::traits_of(tensor.type)->block_bytes) {
    if (tensor.type == tensor_type::f8_e4m3) {
      const float scale = any();
      std::memcpy(&tensor.bytes[at], &scale, sizeof scale);
      continue;
    }
    for (const std::size_t field : f16_fields(tensor.type))
      put_u16(&tensor.bytes[at + field], device::f16_of_float(any()));
  }
}

stored_tensor empty_tensor(tensor_type type, std::uint32_t num_rows, std::uint32_t num_cols) {
  const auto traits = *device::traits_of(type);
  stored_tensor tensor{type, num_rows, num_cols, {}};
  tensor.bytes.resize(std::size_t{num_rows} * (num_cols / traits.block_values) * traits.block_bytes);
  return tensor;
}

} // namespace

std::vector<std::uint32_t> some_widths(tensor_type type) {
  if (device::traits_of(type)->block_values == 256) return {256, 768, 1536};
  if (type == tensor_type::f8_e4m3) return {64, 192, 576};
  if (device::quantised_traits_of(type)) return {32, 96, 576};
  return {32, 65, 576};
}

stored_tensor random_tensor(tensor_type type, std::uint32_t num_rows, std::uint32_t num_cols,
                            std::mt19937& random) {
  stored_tensor tensor = empty_tensor(type, num_rows, num_cols);
  if (device::traits_of(type)->block_values == 1) {
    fill_floats(tensor, random);
    return tensor;
  }
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random() & 0xffU);
  fill_scales(tensor, random);
  return tensor;
}

stored_tensor filled_tensor(tensor_type type, std::uint32_t num_rows, std::uint32_t num_cols, std::byte fill,
                            std::mt19937& random) {
  stored_tensor tensor = empty_tensor(type, num_rows, num_cols);
  std::fill(tensor.bytes.begin(), tensor.bytes.end(), fill);
  fill_scales(tensor, random);
  return tensor;
}

} // namespace paceline::test
