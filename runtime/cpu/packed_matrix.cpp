#include "runtime/cpu/packed_matrix.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/packed_layout.hpp"
#include "runtime/cpu/weight_arena.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/stored_block.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace paceline::cpu {

namespace {

/// Minimum number of bytes of a tensor that are read, packed and reported together: whole tiles.
constexpr std::size_t report_bytes = std::size_t{4} << 20;

std::size_t tile_bytes_of(device::tensor_type type, std::uint32_t num_cols) {
  if (device::is_floating(type)) {
    const device::tensor_type_traits layout = *device::traits_of(type);
    return std::size_t{num_cols} / layout.block_values * layout.block_bytes * tile_rows;
  }
  return packed_format_of(type).tile_bytes(num_cols / block_cols);
}

void put_f16(std::byte* at, std::uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }

std::uint16_t get_f16(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

/// Writes the layout of packed_layout.hpp, four columns (a word) at a time; `stored_code` reads it.
template <std::uint8_t CodeBits>
void pack_codes(const std::uint8_t* stored, std::uint8_t* codes, std::uint32_t row) {
  const auto add = [&](std::uint32_t line, std::uint32_t bits) {
    std::uint8_t* const at = codes + line * line_bytes + 4 * row;
    std::uint32_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word |= bits;
    std::memcpy(at, &word, sizeof word);
  };
  for (std::uint32_t g = 0; g < 8; ++g) {
    std::uint32_t four = 0;
    std::memcpy(&four, stored + 4 * g, sizeof four);
    const std::uint32_t two_bits = g % 4 * 2;
    if constexpr (CodeBits == 8) {
      add(g, four ^ 0x80808080U);
    } else if constexpr (CodeBits >= 4) {
      add(g % 4, (four & 0x0f0f0f0fU) << (g / 4 * 4));
      if constexpr (CodeBits == 5) add(4, (four >> 4 & 0x01010101U) << g);
      if constexpr (CodeBits == 6) add(4 + g / 4, (four >> 4 & 0x03030303U) << two_bits);
    } else {
      add(g / 4, (four & 0x03030303U) << two_bits);
      if constexpr (CodeBits == 3) add(2, (four >> 2 & 0x01010101U) << g);
    }
  }
}

/// Adds a block's stored codes of one row to the tile's codes of that block.
void pack_codes(std::uint8_t code_bits, const std::uint8_t* stored, std::uint8_t* codes, std::uint32_t row) {
  switch (code_bits) { // with a constant layout a code takes only a few instructions
  case 2:
    return pack_codes<2>(stored, codes, row);
  case 3:
    return pack_codes<3>(stored, codes, row);
  case 4:
    return pack_codes<4>(stored, codes, row);
  case 5:
    return pack_codes<5>(stored, codes, row);
  case 6:
    return pack_codes<6>(stored, codes, row);
  default:
    return pack_codes<8>(stored, codes, row);
  }
}

/// One row of F32, F16 or BF16.
void pack_values(const std::byte* stored, std::byte* tile, std::uint32_t row, std::size_t num_cols,
                 std::size_t size) {
  for (std::size_t col = 0; col < num_cols; ++col)
    std::memcpy(tile + (col * tile_rows + row) * size, stored + col * size, size);
}

/// One row of F8_E4M3.
void pack_f8_row(const std::byte* stored, std::byte* tile, std::uint32_t row, std::size_t num_cols) {
  constexpr std::size_t scale_bytes = device::f8_block::codes_at;
  for (std::size_t block = 0; block < num_cols / device::f8_block::num_values; ++block) {
    std::memcpy(tile + row * scale_bytes, stored, scale_bytes);
    stored += scale_bytes;
    for (std::uint32_t col = 0; col < device::f8_block::num_values; ++col)
      tile[f8_scales_bytes + col * tile_rows + row] = *stored++;
    tile += f8_block_bytes;
  }
}

/// Converts it back to the stored format.
std::vector<std::byte> unpack_f8_row(const std::byte* tile, std::uint32_t row, std::size_t num_cols) {
  constexpr std::size_t scale_bytes = device::f8_block::codes_at;
  std::vector<std::byte> stored;
  for (std::size_t block = 0; block < num_cols / device::f8_block::num_values;
       ++block, tile += f8_block_bytes) {
    stored.insert(stored.end(), tile + row * scale_bytes, tile + (row + 1) * scale_bytes);
    for (std::uint32_t col = 0; col < device::f8_block::num_values; ++col)
      stored.push_back(tile[f8_scales_bytes + col * tile_rows + row]);
  }
  return stored;
}

} // namespace

expected<std::unique_ptr<const device::matrix>>
pack_matrix(std::string_view name, const device::tensor_view& tensor, weight_arena& arena,
            const device::bytes_done& done, const device::bytes_needed& needed) {
  if (auto checked = device::check_tensor(name, tensor); !checked) return std::move(checked).error();
  std::unique_ptr<packed_matrix> made(new packed_matrix);
  made->type_ = tensor.type;
  made->num_rows_ = static_cast<std::uint32_t>(tensor.num_rows);
  made->num_cols_ = static_cast<std::uint32_t>(tensor.num_cols);
  made->tile_bytes_ = tile_bytes_of(tensor.type, made->num_cols_);
  const auto bytes = arena.allocate(made->size_bytes());
  if (!bytes)
    return error(errc::resource_exhausted, "tensor " + std::string(name) + ": no memory for " +
                                               std::to_string(made->size_bytes()) + " bytes");
  const std::size_t tile_input = tensor.bytes.size() / tensor.num_rows * tile_rows;
  const auto tiles_of_part = static_cast<std::uint32_t>((report_bytes + tile_input - 1) / tile_input);
  for (std::uint32_t first = 0; first < made->num_tiles(); first += tiles_of_part) {
    const std::uint32_t end = std::min(first + tiles_of_part, made->num_tiles());
    const std::size_t from = first * tile_input;
    const auto part = tensor.bytes.subspan(from, std::min(end * tile_input, tensor.bytes.size()) - from);
    if (auto ready = needed ? needed(part) : expected<void>(); !ready) return std::move(ready).error();
    for (std::uint32_t index = first; index < end; ++index) made->pack_tile(tensor, index, bytes.get());
    if (done) done(part);
  }
  made->bytes_ = bytes;
  return std::unique_ptr<const device::matrix>(std::move(made));
}

void packed_matrix::pack_tile(const device::tensor_view& tensor, std::uint32_t index, std::byte* bytes) {
  std::byte* const tile = bytes + index * tile_bytes_;
  const device::tensor_type_traits layout = *device::traits_of(type_);
  const std::size_t row_bytes = std::size_t{num_cols_} / layout.block_values * layout.block_bytes;
  for (std::uint32_t row = 0; row < tile_rows && index * tile_rows + row < num_rows_; ++row) {
    const std::byte* const stored = tensor.bytes.data() + (index * std::size_t{tile_rows} + row) * row_bytes;
    if (type_ == device::tensor_type::f8_e4m3)
      pack_f8_row(stored, tile, row, num_cols_);
    else if (device::is_floating(type_))
      pack_values(stored, tile, row, num_cols_, layout.block_bytes);
    else
      pack_quantised_row(stored, tile, row);
  }
}

void packed_matrix::pack_quantised_row(const std::byte* stored, std::byte* tile, std::uint32_t row) {
  const packed_format format = packed_format_of(type_);
  const std::size_t num_units = num_cols_ / (block_cols * format.unit_blocks);
  auto* const codes = reinterpret_cast<std::uint8_t*>(tile + format.codes_begin(num_cols_ / block_cols));
  device::stored_block block;
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    device::read_stored_block(type_, stored + unit * device::traits_of(type_)->block_bytes, block);
    std::byte* meta = tile + unit * format.unit_meta_bytes();
    put_f16(meta + 2 * row, block.d);
    if (format.has_mins) put_f16(meta + 2 * (tile_rows + row), block.m);
    meta += (format.has_mins ? 4 : 2) * tile_rows;
    for (std::uint32_t b = 0; b < format.unit_blocks; ++b) {
      std::uint8_t* const block_codes = codes + (unit * format.unit_blocks + b) * format.code_bytes();
      pack_codes(format.code_bits, &block.codes[b * block_cols], block_codes, row);
      if (!format.has_scales) continue;
      for (std::uint32_t g = 0; g < format.groups; ++g) {
        const std::uint32_t from = b * format.groups + g;
        meta[g * tile_rows + row] = static_cast<std::byte>(block.scales[from]);
        if (format.has_mins)
          meta[(format.groups + g) * tile_rows + row] = static_cast<std::byte>(block.mins[from]);
      }
      meta += format.block_meta_bytes();
    }
  }
}

void packed_matrix::dequantize_row(std::uint32_t row, std::span<float> out) const {
  PACELINE_CHECK(row < num_rows_ && out.size() == num_cols_,
                 "row " + std::to_string(row) + " of " + std::to_string(num_rows_));
  const std::byte* const from = tile(row / tile_rows);
  row %= tile_rows;
  if (type_ == device::tensor_type::f8_e4m3)
    return device::dequantize(type_, unpack_f8_row(from, row, num_cols_), out);
  const auto traits = device::quantised_traits_of(type_);
  if (!traits) {
    const std::size_t size = device::traits_of(type_)->block_bytes;
    for (std::size_t col = 0; col < num_cols_; ++col)
      device::dequantize(type_, {from + (col * tile_rows + row) * size, size}, out.subspan(col, 1));
    return;
  }
  const packed_format format = packed_format_of(type_);
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(from + format.codes_begin(num_cols_ / block_cols));
  for (std::size_t unit = 0; unit < num_cols_ / (block_cols * format.unit_blocks); ++unit) {
    const std::byte* meta = from + unit * format.unit_meta_bytes();
    const float d = device::float_of_f16(get_f16(meta + 2 * row));
    const float m = format.has_mins ? device::float_of_f16(get_f16(meta + 2 * (tile_rows + row))) : 0.0f;
    meta += (format.has_mins ? 4 : 2) * tile_rows;
    for (std::uint32_t b = 0; b < format.unit_blocks; ++b, codes += format.code_bytes()) {
      float* const values = out.data() + (unit * format.unit_blocks + b) * block_cols;
      for (std::uint32_t col = 0; col < block_cols; ++col) {
        const std::uint32_t g = col * format.groups / block_cols;
        float scale = d, min = m;
        if (format.has_scales) {
          scale *= static_cast<float>(static_cast<std::int8_t>(meta[g * tile_rows + row]));
          if (format.has_mins)
            min *= static_cast<float>(
                std::to_integer<std::uint8_t>(meta[(format.groups + g) * tile_rows + row]));
        }
        const float value =
            scale * static_cast<float>(device::code_value(*traits, stored_code(format, codes, row, col)));
        values[col] = format.has_mins ? value + min : value;
      }
      meta += format.block_meta_bytes();
    }
  }
}

} // namespace paceline::cpu
