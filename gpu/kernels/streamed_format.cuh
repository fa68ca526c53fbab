#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/streamed_params.hpp"

// Converts the words that a lane reads from a tile in shared memory to operands of the tensor core, and reads
// scales from the span's header. gpu/kernels/streamed_layout.hpp defines tiles, spans, strips and the planes
// of codes. A *unit* is 32 columns, so a tile has two; a *step* is 16 columns, so a unit has two.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

using device::tensor_type;

/// The words of one lane for one unit.
struct unit_words {
  std::uint32_t low[4];  ///< words of the first plane; all four for codes of 8 bits, otherwise two
  std::uint32_t high[2]; ///< words of the plane of upper bits; only the first for codes of 5 and 6 bits
};

/// A word with two float16 of the value 1024 + n, for n <= 1023. Such a float16 has n in its lower ten bits.
constexpr std::uint32_t halves_of_1024_plus(std::uint32_t n) { return (0x6400U + n) * 0x10001U; }

/// The words of unit `unit` < 2 of the tile. `low`: the lane's 16 bytes of the first plane, which are for
/// both units; not used for codes of 8 bits.
template <tensor_type Type>
PACELINE_DEVICE unit_words read_unit(const std::byte* tile, std::uint32_t unit, const quad& low) {
  constexpr std::uint32_t code_bits = streamed_layout_of(Type).code_bits;
  unit_words out{};
  const std::uint32_t lane = lane_index();
  if constexpr (code_bits == 8) {
    const quad plane = read_quad(tile + unit * 512 + lane * 16);
    for (std::uint32_t i = 0; i < 4; ++i) out.low[i] = plane.words[i];
    return out;
  }
  out.low[0] = low.words[unit * 2], out.low[1] = low.words[unit * 2 + 1];
  if constexpr (code_bits == 5)
    out.high[0] = *reinterpret_cast<const std::uint32_t*>(tile + 512 + lane * 4) >> (unit * 8);
  if constexpr (code_bits == 6)
    out.high[0] = *reinterpret_cast<const std::uint32_t*>(tile + 512 + lane * 8 + unit * 4);
  return out;
}

/// The two codes of pair `pair` in step `step` < 2 of the unit, as float16. For F8_E4M3 each is 2^-8 times
/// the value; `read_scales` compensates for this factor.
template <tensor_type Type>
PACELINE_DEVICE std::uint32_t codes_as_halves(const unit_words& words, std::uint32_t step,
                                              std::uint32_t pair) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  std::uint32_t codes = 0;
  if constexpr (Type == tensor_type::f8_e4m3) {
    codes = words.low[step * 2 + pair / 2] >> (pair % 2 * 8);
    return (codes & 0x00800080U) << 8 | (codes & 0x007f007fU) << 7; // device::f16_of_e4m3_over_256
  } else if constexpr (layout.code_bits == 8) {
    codes = words.low[step * 2 + pair / 2] >> (pair % 2 * 8) & 0x00ff00ffU;
  } else {
    codes = words.low[step] >> (pair * 4) & 0x000f000fU;
    if constexpr (layout.code_bits == 5) codes |= (words.high[0] >> (step * 4 + pair) & 0x00010001U) << 4;
    if constexpr (layout.code_bits == 6)
      codes |= (words.high[0] >> ((step * 4 + pair) * 2) & 0x00030003U) << 4;
  }
  return subtract_halves(codes | halves_of_1024_plus(0), halves_of_1024_plus(layout.offset));
}

// ---- formats whose scales and minima are small integers times two numbers for 256 columns (Q4_K, Q5_K)

/// The 24 bits of row `row` < 16 for one tile of the span, number `quarter` < 4: scale and minimum of the
/// first unit, then of the second, with 6 bits each.
PACELINE_DEVICE std::uint32_t read_fields(const std::byte* header, std::uint32_t row, std::uint32_t quarter) {
  return *reinterpret_cast<const std::uint16_t*>(header + 64 + quarter * 32 + row * 2) |
         static_cast<std::uint32_t>(header[192 + quarter * 16 + row]) << 16;
}
/// The scales of the two units as float16, times 2^9. A code has the factor 2^-24 or 2^-20 (`small_codes`),
/// so a product code * scale that is not 0 is at least 2^-15. The tensor core treats factors below 2^-14 as
/// if they were 2^-14 when it decides how many bits of the terms to keep; much smaller products would make it
/// cut off bits of other terms (docs/decisions/0514).
PACELINE_DEVICE std::uint32_t scales_of(std::uint32_t fields) {
  constexpr std::uint32_t both_2_to_15 = 0x78007800U; // its smallest bit is 2^5
  const std::uint32_t codes = (fields << 4 & 0x3f0U) | (fields << 8 & 0x3f00000U);
  return subtract_halves(codes | both_2_to_15, both_2_to_15);
}
/// The minima of the two units as float16, times 2^-24: an integer in the lowest bits of a float16 is a
/// multiple of the smallest positive float16, 2^-24.
PACELINE_DEVICE std::uint32_t minima_of(std::uint32_t fields) {
  return (fields >> 6 & 0x3fU) | (fields >> 2 & 0x3f0000U);
}

/// Shifts `bits` so that bit `From` becomes bit `To`.
template <std::uint32_t From, std::uint32_t To>
PACELINE_DEVICE std::uint32_t moved(std::uint32_t bits) {
  if constexpr (From > To)
    return bits >> (From - To);
  else
    return bits << (To - From);
}

/// The two codes of pair `Pair` in step `Step` < 2 of the unit, as float16 times 2^-24, or times 2^-20 for
/// odd pairs, which are the strip's second eight rows. The factors differ because codes are shifted by 0 or 8
/// bits only: codes of odd pairs stay four bits higher in their halves.
template <tensor_type Type, std::uint32_t Step, std::uint32_t Pair>
PACELINE_DEVICE std::uint32_t small_codes(const unit_words& words) {
  constexpr std::uint32_t at = Pair % 2 * 4;
  std::uint32_t codes = words.low[Step] >> (Pair / 2 * 8) & (0x000f000fU << at);
  if constexpr (streamed_layout_of(Type).code_bits == 5)
    codes |= moved<Step * 4 + Pair, at + 4>(words.high[0]) & (0x00100010U << at);
  return codes;
}
/// The factor that compensates for the factors of codes and scales, in row lane / 4 + 8 * `second` of the
/// strip.
constexpr float multiplier_of_small_codes(std::uint32_t second) { return second != 0 ? 0x1p11F : 0x1p15F; }

/// The scales of one unit of one row. A weight is scale * code, or scale * code + min.
struct unit_scales {
  float scale[2]; ///< of the unit's groups of columns; only the first if a group has 32 columns
  float min;      ///< for formats with minima
};

/// Scales of unit `unit` < 2 in row `row` < 16. `header`: the header of the tile's span; `quarter`: the
/// tile's number in a span of four tiles.
template <tensor_type Type>
PACELINE_DEVICE unit_scales read_scales(const std::byte* header, std::uint32_t row, std::uint32_t quarter,
                                        std::uint32_t unit) {
  const auto word = [&](std::uint32_t at) { return *reinterpret_cast<const std::uint32_t*>(header + at); };
  const auto half_word = [&](std::uint32_t at) -> std::uint32_t {
    return *reinterpret_cast<const std::uint16_t*>(header + at);
  };
  unit_scales out{};
  if constexpr (Type == tensor_type::q4_1) {
    const std::uint32_t both = word(row * 8 + unit * 4);
    out.scale[0] = float_of_half(both), out.min = float_of_half(both >> 16);
  } else if constexpr (Type == tensor_type::q4_k || Type == tensor_type::q5_k) {
    const std::uint32_t both = word(row * 4);
    const std::uint32_t fields = half_word(64 + quarter * 32 + row * 2) |
                                 static_cast<std::uint32_t>(header[192 + quarter * 16 + row]) << 16;
    out.scale[0] = float_of_half(both) * static_cast<float>(fields >> (12 * unit) & 63U);
    out.min = float_of_half(both >> 16) * static_cast<float>(fields >> (12 * unit + 6) & 63U);
  } else if constexpr (Type == tensor_type::q6_k) {
    const float d = float_of_half(half_word(row * 2));
    const std::uint32_t scales = word(32 + quarter * 64 + row * 4) >> (16 * unit);
    for (std::uint32_t g = 0; g < 2; ++g)
      out.scale[g] = d * static_cast<float>(static_cast<std::int8_t>(scales >> (8 * g) & 255U));
  } else if constexpr (Type == tensor_type::f8_e4m3) {
    out.scale[0] = std::bit_cast<float>(word(row * 4)) * 256.0F;
  } else {
    out.scale[0] = float_of_half(half_word(row * 4 + unit * 2));
  }
  return out;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
