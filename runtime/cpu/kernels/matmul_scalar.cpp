#include "runtime/cpu/kernels/matmul_table-inl.hpp"
#include "runtime/cpu/packed_layout.hpp"
#include "runtime/device/float16.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::cpu {

namespace {

std::uint16_t f16_bits(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

/// The meta values of one unit for one row of the tile.
struct unit_meta {
  const packed_format& format;
  const std::byte* at;
  std::uint32_t row;

  float d() const { return device::float_of_f16(f16_bits(at + 2 * row)); }
  float m() const { return device::float_of_f16(f16_bits(at + 2 * (tile_rows + row))); }
  const std::byte* of_block(std::uint32_t block) const {
    return at + (format.has_mins ? 4 : 2) * tile_rows + block * format.block_meta_bytes();
  }
  std::int32_t scale(std::uint32_t block, std::uint32_t group) const {
    if (!format.has_scales) return 1;
    return static_cast<std::int8_t>(of_block(block)[group * tile_rows + row]);
  }
  float min(std::uint32_t block, std::uint32_t group) const {
    if (!format.has_scales) return m();
    return m() * static_cast<float>(std::to_integer<std::uint8_t>(
                     of_block(block)[(format.groups + group) * tile_rows + row]));
  }
};

/// One block of one row of the tile times one row of x, added to `acc` as defined in op_matmul.hpp.
float add_block(const packed_format& format, const device::quantised_traits& traits, const unit_meta& meta,
                std::uint32_t block, const std::uint8_t* codes, const activation_block& x, float acc) {
  const std::uint32_t group_cols = block_cols / format.groups;
  std::int32_t scaled = 0;
  for (std::uint32_t g = 0; g < format.groups; ++g) {
    std::int32_t sum = 0;
    for (std::uint32_t col = g * group_cols; col < (g + 1) * group_cols; ++col)
      sum += device::code_value(traits, stored_code(format, codes, meta.row, col)) * x.q[col];
    scaled += meta.scale(block, g) * sum;
  }
  acc = std::fma(static_cast<float>(scaled) * meta.d(), x.d, acc);
  if (!format.has_mins) return acc;
  if (format.groups == 1) return std::fma(meta.min(block, 0), x.min_factor, acc);
  acc = std::fma(meta.min(block, 0), x.min_factors[0], acc);
  return std::fma(meta.min(block, 1), x.min_factors[1], acc);
}

void multiply(device::tensor_type type, std::uint32_t num_rows, const tile_part& part,
              const activation_block* panel, float* out) {
  const packed_format format = packed_format_of(type);
  const device::quantised_traits traits = *device::quantised_traits_of(type);
  const auto* const codes =
      reinterpret_cast<const std::uint8_t*>(part.tile + format.codes_begin(part.num_blocks));
  for (std::uint32_t row = 0; row < num_rows; ++row)
    for (std::uint32_t out_row = 0; out_row < tile_rows; ++out_row) {
      float& acc = out[row * tile_rows + out_row];
      if (part.begin == 0) acc = 0;
      for (std::uint32_t b = part.begin; b < part.end; ++b) {
        const unit_meta meta{format, part.tile + b / format.unit_blocks * format.unit_meta_bytes(), out_row};
        acc = add_block(format, traits, meta, b % format.unit_blocks, codes + b * format.code_bytes(),
                        panel[(b - part.begin) * num_rows + row], acc);
      }
    }
}

float float_at(const std::byte* at) {
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The value in row `row` and column `col` of the tile.
template <device::tensor_type Type>
float element(const std::byte* tile, std::size_t col, std::uint32_t row) {
  const std::size_t index = col * tile_rows + row;
  if constexpr (Type == device::tensor_type::f32) {
    return float_at(tile + 4 * index);
  } else if constexpr (Type == device::tensor_type::f16) {
    return device::float_of_f16(f16_bits(tile + 2 * index));
  } else if constexpr (Type == device::tensor_type::bf16) {
    return device::float_of_bf16(f16_bits(tile + 2 * index));
  } else {
    const std::byte* const block = tile + col / device::f8_block::num_values * f8_block_bytes;
    const std::size_t at = col % device::f8_block::num_values * tile_rows + row;
    return device::float_of_e4m3(std::to_integer<std::uint8_t>(block[f8_scales_bytes + at])) *
           float_at(block + device::f8_block::codes_at * row);
  }
}

struct scalar_level {
  template <device::tensor_type Type, std::uint32_t NumRows>
  static void quantised(const tile_part& part, const activation_block* panel, float* out) {
    multiply(Type, NumRows, part, panel, out);
  }

  template <device::tensor_type Type, std::uint32_t NumRows>
  static void floats(const std::byte* tile, const float* panel, std::uint32_t num_cols, float* out) {
    for (std::uint32_t row = 0; row < NumRows; ++row)
      for (std::uint32_t out_row = 0; out_row < tile_rows; ++out_row) {
        float acc[2] = {0, 0};
        for (std::size_t k = 0; k < num_cols; ++k)
          acc[k % 2] = std::fma(element<Type>(tile, k, out_row), panel[k * NumRows + row], acc[k % 2]);
        out[row * tile_rows + out_row] = acc[0] + acc[1];
      }
  }
};

void fill_sums(activation_block& block) {
  for (std::size_t g = 0; g < 2; ++g) {
    block.sums[g] = 0;
    for (std::size_t i = 0; i < 16; ++i) block.sums[g] += block.q[16 * g + i];
    block.sums16[g] = static_cast<std::int16_t>(block.sums[g]);
    block.min_factors[g] = block.d * static_cast<float>(block.sums[g]);
  }
  block.sum = block.sums[0] + block.sums[1];
  block.min_factor = block.d * static_cast<float>(block.sum);
}

void quantise_scalar(const float* x, std::uint32_t num_blocks, activation_block* out, std::size_t stride) {
  for (std::size_t b = 0; b < num_blocks; ++b, x += block_cols) {
    activation_block& block = out[b * stride];
    float amax = 0;
    bool finite = true;
    for (std::uint32_t i = 0; i < block_cols; ++i) {
      finite = finite && std::isfinite(x[i]);
      amax = std::max(amax, std::fabs(x[i]));
    }
    block.q.fill(0);
    block.d = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    if (finite && amax >= 0x1p-100f) {
      block.d = amax / 127.0f;
      const float inverse = 127.0f / amax;
      for (std::uint32_t i = 0; i < block_cols; ++i)
        block.q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    }
    fill_sums(block);
  }
}

} // namespace

const matmul_kernels& scalar_matmul_kernels() {
  static constexpr matmul_kernels kernels{&quantise_scalar, max_kernel_rows, &quantised_table<scalar_level>,
                                          &float_table<scalar_level>};
  return kernels;
}

} // namespace paceline::cpu
