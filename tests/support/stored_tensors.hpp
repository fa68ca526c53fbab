#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/stored_block.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace paceline::test {

inline constexpr std::array all_tensor_types{
    device::tensor_type::f32,    device::tensor_type::f16,    device::tensor_type::bf16,
    device::tensor_type::q4_0,   device::tensor_type::q4_1,   device::tensor_type::q5_0,
    device::tensor_type::q5_1,   device::tensor_type::q8_0,   device::tensor_type::q2_k,
    device::tensor_type::q3_k,   device::tensor_type::q4_k,   device::tensor_type::q5_k,
    device::tensor_type::q6_k,   device::tensor_type::iq4_nl, device::tensor_type::iq4_xs,
    device::tensor_type::f8_e4m3};

/// A tensor with its bytes, as a model file stores them.
struct stored_tensor {
  device::tensor_type type = device::tensor_type::f32;
  std::uint64_t num_rows = 0;
  std::uint64_t num_cols = 0;
  std::vector<std::byte> bytes;

  device::tensor_view view() const { return {type, num_rows, num_cols, bytes}; }
};

/// Some widths of rows that `type` allows, in values, including odd multiples of its block.
std::vector<std::uint32_t> some_widths(device::tensor_type type);

/// F32, F16 and BF16: normally distributed values. Other types: random bits for codes and integer scales, and
/// normally distributed float16 scales (float32 for F8_E4M3), of which some are zero and some very small.
stored_tensor random_tensor(device::tensor_type type, std::uint32_t num_rows, std::uint32_t num_cols,
                            std::mt19937& random);

/// Like random_tensor for a quantised type or F8_E4M3, but every byte of codes and integer scales is `fill`.
stored_tensor filled_tensor(device::tensor_type type, std::uint32_t num_rows, std::uint32_t num_cols,
                            std::byte fill, std::mt19937& random);

/// True if `parts` are views of `bytes` that follow each other without gaps and cover all of it.
inline bool are_in_order(std::span<const std::span<const std::byte>> parts,
                         std::span<const std::byte> bytes) {
  const std::byte* next = bytes.data();
  for (const auto& part : parts) {
    if (part.data() != next) return false;
    next += part.size();
  }
  return next == bytes.data() + bytes.size();
}

} // namespace paceline::test
