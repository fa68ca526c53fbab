#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/tensor_type.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace paceline::device {

/// How a quantised format encodes values. In a stored block of `num_values` values, divided into groups of
/// `group_values`, value i of group g is
///
///     d * scale_g * code_i + m * min_g
///
/// d and m are float16 numbers of the block; scale_g, code_i and min_g are integers. In a format without
/// integer scales, scale_g = 1. In a format without integer minima, min_g = 1. In a format without m, m = 0.
/// Codes are signed: `code = stored - offset`, or `code = iq4_values[stored]` with `lookup`.
struct quantised_traits {
  std::uint16_t num_values = 0;  ///< 32, or 256 in the K and XS formats
  std::uint8_t code_bits = 0;    ///< of a stored code: 2, 3, 4, 5, 6 or 8
  std::uint8_t group_values = 0; ///< 16 or 32
  std::uint8_t offset = 0;
  bool lookup = false;
  bool has_scales = false; ///< each group has an integer scale
  bool has_mins = false;   ///< the format has m
};

/// Traits of `type`; nullopt for F32, F16, BF16 and F8_E4M3.
constexpr std::optional<quantised_traits> quantised_traits_of(tensor_type type) noexcept {
  switch (type) {
  case tensor_type::q4_0:
    return quantised_traits{32, 4, 32, 8, false, false, false};
  case tensor_type::q4_1:
    return quantised_traits{32, 4, 32, 0, false, false, true};
  case tensor_type::q5_0:
    return quantised_traits{32, 5, 32, 16, false, false, false};
  case tensor_type::q5_1:
    return quantised_traits{32, 5, 32, 0, false, false, true};
  case tensor_type::q8_0:
    return quantised_traits{32, 8, 32, 128, false, false, false};
  case tensor_type::iq4_nl:
    return quantised_traits{32, 4, 32, 0, true, false, false};
  case tensor_type::q2_k:
    return quantised_traits{256, 2, 16, 0, false, true, true};
  case tensor_type::q3_k:
    return quantised_traits{256, 3, 16, 4, false, true, false};
  case tensor_type::q4_k:
    return quantised_traits{256, 4, 32, 0, false, true, true};
  case tensor_type::q5_k:
    return quantised_traits{256, 5, 32, 0, false, true, true};
  case tensor_type::q6_k:
    return quantised_traits{256, 6, 16, 32, false, true, false};
  case tensor_type::iq4_xs:
    return quantised_traits{256, 4, 32, 0, true, true, false};
  case tensor_type::f32:
  case tensor_type::f16:
  case tensor_type::bf16:
  case tensor_type::f8_e4m3:
    return std::nullopt;
  }
  return std::nullopt;
}

/// A block of F8_E4M3 is a float32 scale, below 2^100 in magnitude or NaN, followed by the codes: value i is
/// float_of_e4m3(codes[i]) * scale, rounded once. Readers do not check for NaN codes: the writer of a block
/// with a NaN code must store the scale NaN.
struct f8_block {
  static constexpr std::uint32_t num_values = 64;
  static constexpr std::uint32_t codes_at = 4; ///< bytes of the scale
};
static_assert(traits_of(tensor_type::f8_e4m3)->block_values == f8_block::num_values);
static_assert(traits_of(tensor_type::f8_e4m3)->block_bytes == f8_block::codes_at + f8_block::num_values);

/// Values of the 4-bit non-linear formats.
inline constexpr std::array<std::int8_t, 16> iq4_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

/// One block as plain numbers. Only the first `num_values` (or num_values / group_values) entries of the
/// arrays are used.
struct stored_block {
  std::array<std::uint8_t, 256> codes; ///< stored codes; for Q8_0 with 128 added
  std::array<std::int8_t, 16> scales;
  std::array<std::uint8_t, 16> mins;
  std::uint16_t d = 0; ///< float16
  std::uint16_t m = 0; ///< float16, negated where the format subtracts it
};

/// Reads one block of a quantised `type` from its traits_of(type)->block_bytes bytes at `bytes`.
void read_stored_block(tensor_type type, const std::byte* bytes, stored_block& out);

/// The signed code (code_i in the formula of `quantised_traits`) of a stored code.
constexpr std::int32_t code_value(const quantised_traits& traits, std::uint8_t stored) noexcept {
  return traits.lookup ? iq4_values[stored] : std::int32_t{stored} - traits.offset;
}

/// Writes the values of `bytes`, which are whole blocks of `type`, to `out`. This function defines every
/// format. Each value is rounded at most once, in the final sum.
void dequantize(tensor_type type, std::span<const std::byte> bytes, std::span<float> out);

/// Checks without overflow that the sizes of `tensor` agree: rows consist of whole blocks, and the number of
/// bytes matches rows and columns. Error: `invalid_file`, naming the tensor and the rule.
expected<void> check_tensor(std::string_view name, const tensor_view& tensor);

} // namespace paceline::device
