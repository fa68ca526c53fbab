#pragma once

#include <bit>
#include <cstdint>

namespace paceline::device {

/// Value of IEEE half precision `bits`; exact. NaNs keep their sign and payload.
constexpr float float_of_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  // Interprets the bits as the exponent and fraction of a float whose exponent is 112 too small. The product
  // corrects the exponent and normalises subnormals, without rounding.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

/// `value` rounded to half precision, ties to even; infinity beyond its range.
constexpr std::uint16_t f16_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U); // rounds to 2^16 or more
  if (magnitude < 0x38800000U) {
    // Below 2^-14 halves are multiples of 2^-24: adding 0.5 rounds the float to such a multiple, with ties to
    // even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

/// Value of bfloat16 `bits`; exact.
constexpr float float_of_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// `value` rounded to bfloat16, ties to even; infinity beyond its range. Subnormals are kept. NaNs keep their
/// sign and the upper bits of their payload and become quiet.
constexpr std::uint16_t bf16_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/// 2^-8 times the value of the E4M3 number `code` as a float16; exact. 0x7f and 0xff, which are NaN in E4M3,
/// are treated as 480 and -480, the values that these bits would have if they were ordinary numbers.
constexpr std::uint16_t f16_of_e4m3_over_256(std::uint8_t code) noexcept {
  return static_cast<std::uint16_t>((code & 0x80U) << 8 | (code & 0x7fU) << 7);
}

/// Value of the E4M3 number `code` (1 sign bit, 4 exponent bits, 3 fraction bits, no infinities); exact. 0x7f
/// and 0xff as above.
constexpr float float_of_e4m3(std::uint8_t code) noexcept {
  return float_of_f16(f16_of_e4m3_over_256(code)) * 256.0f;
}

/// A bfloat16 in memory, a type distinct from the std::uint16_t that holds a half.
struct bfloat16 {
  std::uint16_t bits = 0;
};

} // namespace paceline::device
