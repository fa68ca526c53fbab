#pragma once

#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/params.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/device/tensor_type.hpp"

#include <bit>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

using device::tensor_type;

/// 32 adjacent weights of a quantised format (defined in runtime/device/stored_block.hpp): weight i is d *
/// scales[g] * codes[i] + m * mins[g] with g = i / group.
struct weight_block {
  std::int8_t codes[32];
  std::int32_t scales[2];
  std::int32_t mins[2];
  float d;
  float m;
  std::uint32_t group; ///< 16 or 32
  bool has_mins;
};

PACELINE_DEVICE std::uint32_t byte_at(const std::byte* at) { return static_cast<std::uint32_t>(*at); }
PACELINE_DEVICE std::uint32_t word_at(const std::byte* at) { return byte_at(at) | byte_at(at + 1) << 8; }
PACELINE_DEVICE float half_at(const std::byte* at) {
  return device::float_of_f16(static_cast<std::uint16_t>(word_at(at)));
}

/// Eight of the non-linear 4-bit values in one word, because device code cannot index constant arrays.
constexpr std::uint64_t packed_iq4(std::size_t first) {
  std::uint64_t packed = 0;
  for (std::size_t i = 0; i < 8; ++i)
    packed |= std::uint64_t{static_cast<std::uint8_t>(device::iq4_values[first + i])} << (8 * i);
  return packed;
}

PACELINE_DEVICE std::int32_t iq4_value(std::uint32_t code) {
  constexpr std::uint64_t low = packed_iq4(0), high = packed_iq4(8);
  return static_cast<std::int8_t>((code < 8 ? low : high) >> (code % 8 * 8) & 0xffU);
}

/// Code `i` < 32 in 16 bytes: the low nibbles are codes 0 to 15, and the high nibbles are codes 16 to 31.
PACELINE_DEVICE std::uint32_t nibble(const std::byte* at, std::uint32_t i) {
  return i < 16 ? byte_at(at + i) & 15U : byte_at(at + i - 16) >> 4;
}

/// Reads scale and minimum `g` of Q4_K or Q5_K, which have 6 bits each, from 12 bytes.
PACELINE_DEVICE void read_k_scale(const std::byte* at, std::uint32_t g, weight_block& out) {
  if (g < 4) {
    out.scales[0] = static_cast<std::int32_t>(byte_at(at + g) & 63U);
    out.mins[0] = static_cast<std::int32_t>(byte_at(at + g + 4) & 63U);
    return;
  }
  const std::uint32_t packed = byte_at(at + g + 4);
  out.scales[0] = static_cast<std::int32_t>((packed & 15U) | byte_at(at + g - 4) >> 6 << 4);
  out.mins[0] = static_cast<std::int32_t>(packed >> 4 | byte_at(at + g) >> 6 << 4);
}

/// Scale of group `g` of Q3_K.
PACELINE_DEVICE std::int32_t q3_k_scale(const std::byte* at, std::uint32_t g) {
  const std::uint32_t low = byte_at(at + 96 + g % 8) >> (g / 8 * 4) & 15U;
  const std::uint32_t high = byte_at(at + 104 + g % 4) >> (g / 4 * 2) & 3U;
  return static_cast<std::int32_t>(low | high << 4) - 32;
}

/// Reads the scales and minima of part `s` (32 values) of a block of 256 values.
PACELINE_DEVICE void read_k_header(tensor_type type, const std::byte* at, std::uint32_t s,
                                   weight_block& out) {
  switch (type) {
  case tensor_type::q2_k:
    for (std::uint32_t g = 0; g < 2; ++g) {
      out.scales[g] = static_cast<std::int32_t>(byte_at(at + 2 * s + g) & 15U);
      out.mins[g] = static_cast<std::int32_t>(byte_at(at + 2 * s + g) >> 4);
    }
    out.d = half_at(at + 80), out.m = -half_at(at + 82), out.group = 16, out.has_mins = true;
    return;
  case tensor_type::q3_k:
    for (std::uint32_t g = 0; g < 2; ++g) out.scales[g] = q3_k_scale(at, 2 * s + g);
    out.d = half_at(at + 108), out.group = 16;
    return;
  case tensor_type::q6_k:
    for (std::uint32_t g = 0; g < 2; ++g)
      out.scales[g] = static_cast<std::int8_t>(byte_at(at + 192 + 2 * s + g));
    out.d = half_at(at + 208), out.group = 16;
    return;
  case tensor_type::iq4_xs: {
    const std::uint32_t low = byte_at(at + 4 + s / 2) >> (s % 2 * 4) & 15U;
    out.scales[0] = static_cast<std::int32_t>(low | (word_at(at + 2) >> (2 * s) & 3U) << 4) - 32;
    out.d = half_at(at);
    return;
  }
  default: // Q4_K, Q5_K
    read_k_scale(at + 4, s, out);
    out.d = half_at(at), out.m = -half_at(at + 2), out.has_mins = true;
  }
}

/// Code `i` of part `s` of a block at `at`; s is 0 in the formats of 32 values.
PACELINE_DEVICE std::int32_t code_at(tensor_type type, const std::byte* at, std::uint32_t s,
                                     std::uint32_t i) {
  const auto signed_code = [](std::uint32_t code, std::int32_t offset) {
    return static_cast<std::int32_t>(code) - offset;
  };
  switch (type) {
  case tensor_type::q4_0:
    return signed_code(nibble(at + 2, i), 8);
  case tensor_type::q4_1:
    return signed_code(nibble(at + 4, i), 0);
  case tensor_type::q5_0:
    return signed_code(nibble(at + 6, i) | (byte_at(at + 2 + i / 8) >> (i % 8) & 1U) << 4, 16);
  case tensor_type::q5_1:
    return signed_code(nibble(at + 8, i) | (byte_at(at + 4 + i / 8) >> (i % 8) & 1U) << 4, 0);
  case tensor_type::q8_0:
    return static_cast<std::int8_t>(byte_at(at + 2 + i));
  case tensor_type::iq4_nl:
    return iq4_value(nibble(at + 2, i));
  case tensor_type::iq4_xs:
    return iq4_value(nibble(at + 8 + 16 * s, i));
  case tensor_type::q2_k:
    return signed_code(byte_at(at + 16 + s / 4 * 32 + i) >> (s % 4 * 2) & 3U, 0);
  case tensor_type::q3_k:
    return signed_code(
        (byte_at(at + 32 + s / 4 * 32 + i) >> (s % 4 * 2) & 3U) | (byte_at(at + i) >> s & 1U) << 2, 4);
  case tensor_type::q4_k:
    return signed_code(byte_at(at + 16 + s / 2 * 32 + i) >> (s % 2 * 4) & 15U, 0);
  case tensor_type::q5_k:
    return signed_code(
        (byte_at(at + 48 + s / 2 * 32 + i) >> (s % 2 * 4) & 15U) | (byte_at(at + 16 + i) >> s & 1U) << 4, 0);
  case tensor_type::q6_k: {
    const std::uint32_t quarter = s % 4;
    const std::uint32_t low = byte_at(at + s / 4 * 64 + quarter % 2 * 32 + i) >> (quarter / 2 * 4) & 15U;
    const std::uint32_t high = byte_at(at + 128 + s / 4 * 32 + i) >> (quarter * 2) & 3U;
    return signed_code(low | high << 4, 32);
  }
  default:
    return 0;
  }
}

/// Beginning of the stored block with values 32 * b .. 32 * b + 31 of row `row`.
PACELINE_DEVICE const std::byte* block_at(const weight_rows& weights, std::size_t row, std::uint32_t b) {
  const std::uint32_t index = weights.block_values == 256 ? b / 8 : b;
  return weights.bytes + row * weights.row_bytes + std::size_t{index} * weights.block_bytes;
}

/// Reads everything except the codes of weights 32 * b .. 32 * b + 31 of row `row` of a quantised matrix.
PACELINE_DEVICE void read_block_header(const weight_rows& weights, std::size_t row, std::uint32_t b,
                                       weight_block& out) {
  const tensor_type type = weights.type;
  const std::byte* const at = block_at(weights, row, b);
  out.scales[0] = out.scales[1] = out.mins[0] = out.mins[1] = 1;
  out.m = 0, out.group = 32, out.has_mins = false;
  if (weights.block_values == 256) {
    read_k_header(type, at, b % 8, out);
  } else {
    out.d = half_at(at);
    out.has_mins = type == tensor_type::q4_1 || type == tensor_type::q5_1;
    if (out.has_mins) out.m = half_at(at + 2);
  }
}

/// Reads weights 32 * b .. 32 * b + 31 of row `row` of a quantised matrix.
PACELINE_DEVICE void read_weight_block(const weight_rows& weights, std::size_t row, std::uint32_t b,
                                       weight_block& out) {
  read_block_header(weights, row, b, out);
  const std::byte* const at = block_at(weights, row, b);
  const std::uint32_t s = weights.block_values == 256 ? b % 8 : 0;
  for (std::uint32_t i = 0; i < 32; ++i)
    out.codes[i] = static_cast<std::int8_t>(code_at(weights.type, at, s, i));
}

/// The stored F8_E4M3 block that contains value `k` of row `row`: its scale, then its codes.
PACELINE_DEVICE const std::byte* f8_block_at(const weight_rows& weights, std::size_t row, std::uint32_t k) {
  return weights.bytes + row * weights.row_bytes +
         std::size_t{k / device::f8_block::num_values} * weights.block_bytes;
}
PACELINE_DEVICE float f8_scale(const std::byte* block) { return *reinterpret_cast<const float*>(block); }
PACELINE_DEVICE std::uint32_t f8_code(const std::byte* block, std::uint32_t k) {
  return byte_at(block + device::f8_block::codes_at + k % device::f8_block::num_values);
}

/// Code `k` of row `row` of a quantised matrix, or of F8_E4M3.
PACELINE_DEVICE std::int32_t stored_code(const weight_rows& weights, std::size_t row, std::uint32_t k) {
  if (weights.type == tensor_type::f8_e4m3)
    return static_cast<std::int32_t>(f8_code(f8_block_at(weights, row, k), k));
  const std::uint32_t b = k / 32;
  return code_at(weights.type, block_at(weights, row, b), weights.block_values == 256 ? b % 8 : 0, k % 32);
}

/// Value `k` of row `row` of F16 or BF16, as stored.
PACELINE_DEVICE std::uint32_t stored_value_bits(const weight_rows& weights, std::size_t row,
                                                std::uint32_t k) {
  return reinterpret_cast<const std::uint16_t*>(weights.bytes + row * weights.row_bytes)[k];
}

/// Value `k` of row `row` of F32, F16, BF16 or F8_E4M3.
PACELINE_DEVICE float float_weight(const weight_rows& weights, std::size_t row, std::uint32_t k) {
  if (weights.type == tensor_type::f8_e4m3) {
    const std::byte* const block = f8_block_at(weights, row, k);
    return device::float_of_e4m3(static_cast<std::uint8_t>(f8_code(block, k))) * f8_scale(block);
  }
  const std::byte* const at = weights.bytes + row * weights.row_bytes;
  if (weights.type == tensor_type::f32) return reinterpret_cast<const float*>(at)[k];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(at)[k];
  return weights.type == tensor_type::f16 ? device::float_of_f16(bits) : device::float_of_bf16(bits);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
