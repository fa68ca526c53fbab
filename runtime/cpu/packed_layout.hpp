#pragma once

#include "runtime/device/stored_block.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::cpu {

/// Number of interleaved rows: a multiple of the number of lanes of every vector size. A *tile* is this many
/// rows over all columns.
inline constexpr std::uint32_t tile_rows = 16;
/// Columns of a *block*. They share one activation scale.
inline constexpr std::uint32_t block_cols = 32;
/// Bytes of a *line*, which kernels load at once. For each row of the tile it has four bytes, one for each of
/// four adjacent columns. If codes have fewer than 8 bits, a byte also has bits of other columns.
inline constexpr std::uint32_t line_bytes = 64;

/// Distance of prefetches in bytes: about one tile of a small model, and enough to cover the latency of
/// memory.
inline constexpr std::uint32_t prefetch_bytes = 4096;

/// Layout of a quantised type's tile. A *unit* is the 1 or 8 blocks that share the float16 scale d (and m). A
/// tile is
///
///     meta  of every unit: d[16], m[16] (with mins), then for each of its blocks
///             scales[groups][16] (int8, with scales), mins[groups][16] (uint8, with scales and mins)
///     padding to 64 bytes
///     codes of every block: `code_bits` lines of 64 bytes
///
/// Byte 4 * row + c of a line belongs to columns 4 * g + c of the block, for one or more g in 0..7:
///
///     8 bits     line g: code minus `offset`, as int8
///     4, 5, 6    line g % 4: bits 0-3 in the low nibble for g < 4, in the high one for g >= 4
///     2, 3       line g / 4: bits 0-1 at bit 2 * (g % 4)
///     5, 3       one line more: the top bit at bit g
///     6          two lines more: the top two bits in line g / 4 at bit 2 * (g % 4)
///
/// So a tile has as many bytes as in the file (3 % more for K formats with 6-bit scales), and every kernel
/// level can read it.
struct packed_format {
  std::uint8_t code_bits = 0;
  std::uint8_t unit_blocks = 0;
  std::uint8_t groups = 0; ///< groups of a block: 1, or 2 of 16 columns
  std::uint8_t offset = 0; ///< 0 or a power of two; a weight's code is the stored code minus this
  bool lookup = false;     ///< stored codes are indices of device::iq4_values
  bool has_scales = false; ///< groups have integer scales
  bool has_mins = false;   ///< weights are code * scale + min

  constexpr std::uint32_t code_bytes() const noexcept { return code_bits * line_bytes; }
  constexpr std::uint32_t block_meta_bytes() const noexcept {
    return has_scales ? groups * tile_rows * (has_mins ? 2U : 1U) : 0U;
  }
  constexpr std::uint32_t unit_meta_bytes() const noexcept {
    return tile_rows * 2U * (has_mins ? 2U : 1U) + unit_blocks * block_meta_bytes();
  }
  /// Offset of the codes in a tile of `num_blocks` blocks.
  constexpr std::size_t codes_begin(std::size_t num_blocks) const noexcept {
    const std::size_t meta = num_blocks / unit_blocks * unit_meta_bytes();
    return (meta + line_bytes - 1) / line_bytes * line_bytes;
  }
  constexpr std::size_t tile_bytes(std::size_t num_blocks) const noexcept {
    return codes_begin(num_blocks) + num_blocks * code_bytes();
  }
};

/// Bytes of a tile of F8_E4M3 for the columns of a stored block: float32 scales [16], then codes [64][16].
inline constexpr std::uint32_t f8_scales_bytes = tile_rows * device::f8_block::codes_at;
inline constexpr std::uint32_t f8_block_bytes = f8_scales_bytes + tile_rows * device::f8_block::num_values;

constexpr packed_format packed_format_of(device::tensor_type type) {
  const device::quantised_traits traits = device::quantised_traits_of(type).value();
  packed_format format;
  format.code_bits = traits.code_bits;
  format.unit_blocks = static_cast<std::uint8_t>(traits.num_values / block_cols);
  format.groups = static_cast<std::uint8_t>(block_cols / traits.group_values);
  format.offset = traits.offset;
  format.lookup = traits.lookup;
  format.has_scales = traits.has_scales;
  format.has_mins = traits.has_mins;
  return format;
}

/// Stored code (see device::quantised_traits) of row `row` < 16 and column `col` < 32 in a block's codes.
constexpr std::uint8_t stored_code(const packed_format& format, const std::uint8_t* codes, std::uint32_t row,
                                   std::uint32_t col) noexcept {
  const std::uint32_t g = col / 4, at = 4 * row + col % 4;
  const auto line = [&](std::uint32_t index) -> std::uint32_t { return codes[index * line_bytes + at]; };
  const std::uint32_t two_bits = g % 4 * 2;
  switch (format.code_bits) {
  case 8:
    return static_cast<std::uint8_t>(line(g) ^ 0x80U);
  case 4:
    return static_cast<std::uint8_t>(line(g % 4) >> (g / 4 * 4) & 15U);
  case 5:
    return static_cast<std::uint8_t>((line(g % 4) >> (g / 4 * 4) & 15U) | (line(4) >> g & 1U) << 4);
  case 6:
    return static_cast<std::uint8_t>((line(g % 4) >> (g / 4 * 4) & 15U) | (line(4 + g / 4) >> two_bits & 3U)
                                                                              << 4);
  case 2:
    return static_cast<std::uint8_t>(line(g / 4) >> two_bits & 3U);
  default:
    return static_cast<std::uint8_t>((line(g / 4) >> two_bits & 3U) | (line(2) >> g & 1U) << 2);
  }
}

} // namespace paceline::cpu
