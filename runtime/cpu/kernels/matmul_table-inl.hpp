#pragma once

// Included by the source file of each kernel level, which passes a type of its own as `Level`. Internal
// linkage: code compiled for one level must never replace another level's at link time.

#include "runtime/cpu/kernels/matmul.hpp"
#include "runtime/cpu/packed_layout.hpp"

#include <utility>

namespace paceline::cpu {
namespace {

/// The number that is added to the signed codes of the format to make them unsigned, because some
/// instructions need one unsigned operand: 128 for codes from a lookup table, else the format's offset.
template <packed_format F>
constexpr std::uint8_t excess = F.lookup ? 128 : F.offset;

/// Where the scales and codes of a part begin.
template <packed_format F>
const std::byte* meta_of(const tile_part& part) {
  return part.tile + part.begin / F.unit_blocks * F.unit_meta_bytes();
}
template <packed_format F>
const std::byte* codes_of(const tile_part& part) {
  return part.tile + F.codes_begin(part.num_blocks) + part.begin * F.code_bytes();
}

/// Prefetches weights for a kernel that reads a tile. A kernel reads scales and codes alternately, at two
/// addresses. The processor's own prefetcher does not recognise this pattern and reads at a third of the
/// memory's speed. This class prefetches the bytes of a tile in the order of addresses. At a tile's first
/// block the prefetch is `prefetch_bytes` ahead of the first code. The codes begin after the scales of all
/// blocks, so in wide matrices a prefetch that started ahead of the first scale would come too late for the
/// codes.
template <packed_format F>
class tile_prefetch {
 public:
  explicit tile_prefetch(const tile_part& part)
      : at_(part.tile + part.begin * block_bytes + F.codes_begin(part.num_blocks) + prefetch_bytes) {}

  /// Called once for each block: prefetches as many bytes as a block has, scales included. Tiles are
  /// contiguous, so prefetching continues into the next tile. Prefetches past the end of a matrix are
  /// harmless.
  [[gnu::always_inline]] void next_block() {
    for (std::uint32_t line = 0; line < block_bytes; line += line_bytes) __builtin_prefetch(at_ + line, 0, 3);
    at_ += block_bytes;
  }

 private:
  static constexpr std::uint32_t block_bytes =
      F.code_bytes() + (F.unit_meta_bytes() + F.unit_blocks - 1) / F.unit_blocks;
  const std::byte* at_;
};

/// The kernels Level::quantised<Type, rows> for rows = 1..max_kernel_rows.
template <class Level, device::tensor_type Type>
matmul_kernels::by_rows quantised_by_rows() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return matmul_kernels::by_rows{&Level::template quantised<Type, I + 1>...};
  }
  (std::make_index_sequence<max_kernel_rows>());
}

template <class Level, device::tensor_type Type>
matmul_kernels::float_by_rows floats_by_rows() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return matmul_kernels::float_by_rows{&Level::template floats<Type, I + 1>...};
  }
  (std::make_index_sequence<max_kernel_rows>());
}

template <class Level>
matmul_kernels::by_rows quantised_table(device::tensor_type type) {
  using enum device::tensor_type;
  switch (type) {
  case q4_0:
    return quantised_by_rows<Level, q4_0>();
  case q4_1:
    return quantised_by_rows<Level, q4_1>();
  case q5_0:
    return quantised_by_rows<Level, q5_0>();
  case q5_1:
    return quantised_by_rows<Level, q5_1>();
  case q8_0:
    return quantised_by_rows<Level, q8_0>();
  case q2_k:
    return quantised_by_rows<Level, q2_k>();
  case q3_k:
    return quantised_by_rows<Level, q3_k>();
  case q4_k:
    return quantised_by_rows<Level, q4_k>();
  case q5_k:
    return quantised_by_rows<Level, q5_k>();
  case q6_k:
    return quantised_by_rows<Level, q6_k>();
  case iq4_nl:
    return quantised_by_rows<Level, iq4_nl>();
  case iq4_xs:
    return quantised_by_rows<Level, iq4_xs>();
  case f32:
  case f16:
  case bf16:
  case f8_e4m3:
    break;
  }
  return {};
}

template <class Level>
matmul_kernels::float_by_rows float_table(device::tensor_type type) {
  using enum device::tensor_type;
  if (type == f32) return floats_by_rows<Level, f32>();
  if (type == f16) return floats_by_rows<Level, f16>();
  if (type == bf16) return floats_by_rows<Level, bf16>();
  if (type == f8_e4m3) return floats_by_rows<Level, f8_e4m3>();
  return {};
}

} // namespace
} // namespace paceline::cpu
