#include "runtime/device/stored_block.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"

#include <bit>
#include <limits>
#include <string>

namespace paceline::device {

namespace {

std::uint8_t u8(const std::byte* at) noexcept { return std::to_integer<std::uint8_t>(*at); }
std::uint16_t u16(const std::byte* at) noexcept {
  return static_cast<std::uint16_t>(u8(at) | u8(at + 1) << 8);
}
std::uint32_t u32(const std::byte* at) noexcept { return u16(at) | std::uint32_t{u16(at + 2)} << 16; }

/// A float16 with its sign changed: K formats subtract their minima.
std::uint16_t negated(std::uint16_t f16) noexcept { return f16 ^ 0x8000U; }

/// 16 bytes: the low nibbles are codes 0..15, the high ones 16..31.
void read_nibbles(const std::byte* bytes, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = u8(bytes + i) & 15U;
    codes[16 + i] = u8(bytes + i) >> 4;
  }
}

/// 32 bits: the fifth bit of each code.
void add_fifth_bits(std::uint32_t bits, std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] |= static_cast<std::uint8_t>((bits >> i & 1U) << 4);
}

/// Q4_K and Q5_K: 128 bytes. In each group of 32 bytes, the low nibbles hold 32 codes and the high nibbles
/// hold the next 32.
void read_k_nibbles(const std::byte* bytes, std::uint8_t* codes) {
  for (int k = 0; k < 256; ++k) {
    const std::uint8_t pair = u8(bytes + k / 64 * 32 + k % 32);
    codes[k] = k % 64 < 32 ? pair & 15U : pair >> 4;
  }
}

/// Q4_K and Q5_K: eight scales and eight minima of 6 bits in 12 bytes.
void read_k_scales(const std::byte* bytes, stored_block& out) {
  for (int g = 0; g < 4; ++g) {
    const std::uint8_t a = u8(bytes + g), b = u8(bytes + g + 4), c = u8(bytes + g + 8);
    out.scales[g] = static_cast<std::int8_t>(a & 63U);
    out.mins[g] = b & 63U;
    out.scales[g + 4] = static_cast<std::int8_t>((c & 15U) | (a >> 6) << 4);
    out.mins[g + 4] = static_cast<std::uint8_t>(c >> 4 | (b >> 6) << 4);
  }
}

/// Q2_K and Q3_K: 64 bytes. Each group of 32 bytes has four planes of 32 codes.
void read_two_bit_planes(const std::byte* bytes, std::uint8_t* codes) {
  for (int k = 0; k < 256; ++k) codes[k] = u8(bytes + k / 128 * 32 + k % 32) >> (k / 32 % 4 * 2) & 3U;
}

void read_q2_k(const std::byte* bytes, stored_block& out) {
  read_two_bit_planes(bytes + 16, out.codes.data());
  for (int g = 0; g < 16; ++g) {
    out.scales[g] = static_cast<std::int8_t>(u8(bytes + g) & 15U);
    out.mins[g] = u8(bytes + g) >> 4;
  }
  out.d = u16(bytes + 80);
  out.m = negated(u16(bytes + 82));
}

void read_q3_k(const std::byte* bytes, stored_block& out) {
  read_two_bit_planes(bytes + 32, out.codes.data());
  for (int k = 0; k < 256; ++k)
    out.codes[k] |= static_cast<std::uint8_t>((u8(bytes + k % 32) >> (k / 32) & 1U) << 2);
  const std::byte* const scales = bytes + 96;
  for (int g = 0; g < 16; ++g) {
    const std::uint8_t low = u8(scales + g % 8) >> (g / 8 * 4) & 15U;
    const std::uint8_t high = u8(scales + 8 + g % 4) >> (g / 4 * 2) & 3U;
    out.scales[g] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  out.d = u16(bytes + 108);
}

void read_q5_k(const std::byte* bytes, stored_block& out) {
  read_k_nibbles(bytes + 48, out.codes.data());
  for (int k = 0; k < 256; ++k)
    out.codes[k] |= static_cast<std::uint8_t>((u8(bytes + 16 + k % 32) >> (k / 32) & 1U) << 4);
}

void read_q6_k(const std::byte* bytes, stored_block& out) {
  for (int k = 0; k < 256; ++k) {
    const int half = k / 128, quarter = k / 32 % 4, l = k % 32;
    const std::uint8_t low = u8(bytes + half * 64 + quarter % 2 * 32 + l) >> (quarter / 2 * 4) & 15U;
    const std::uint8_t high = u8(bytes + 128 + half * 32 + l) >> (quarter * 2) & 3U;
    out.codes[k] = static_cast<std::uint8_t>(low | high << 4);
  }
  for (int g = 0; g < 16; ++g) out.scales[g] = static_cast<std::int8_t>(u8(bytes + 192 + g));
  out.d = u16(bytes + 208);
}

void read_iq4_xs(const std::byte* bytes, stored_block& out) {
  const std::uint16_t high = u16(bytes + 2);
  for (int g = 0; g < 8; ++g) {
    const unsigned low = u8(bytes + 4 + g / 2) >> (g % 2 * 4) & 15U;
    out.scales[g] = static_cast<std::int8_t>(static_cast<int>(low | (high >> (2 * g) & 3U) << 4) - 32);
    read_nibbles(bytes + 8 + 16 * g, out.codes.data() + 32 * g);
  }
}

} // namespace

void read_stored_block(tensor_type type, const std::byte* bytes, stored_block& out) {
  std::uint8_t* const codes = out.codes.data();
  out.scales.fill(1);
  out.mins.fill(1);
  out.d = u16(bytes);
  out.m = 0;
  switch (type) {
  case tensor_type::q4_0:
  case tensor_type::iq4_nl:
    return read_nibbles(bytes + 2, codes);
  case tensor_type::q4_1:
    out.m = u16(bytes + 2);
    return read_nibbles(bytes + 4, codes);
  case tensor_type::q5_0:
    read_nibbles(bytes + 6, codes);
    return add_fifth_bits(u32(bytes + 2), codes);
  case tensor_type::q5_1:
    out.m = u16(bytes + 2);
    read_nibbles(bytes + 8, codes);
    return add_fifth_bits(u32(bytes + 4), codes);
  case tensor_type::q8_0:
    for (int i = 0; i < 32; ++i) codes[i] = u8(bytes + 2 + i) ^ 0x80U;
    return;
  case tensor_type::q2_k:
    return read_q2_k(bytes, out);
  case tensor_type::q3_k:
    return read_q3_k(bytes, out);
  case tensor_type::q4_k:
  case tensor_type::q5_k:
    out.m = negated(u16(bytes + 2));
    read_k_scales(bytes + 4, out);
    return type == tensor_type::q4_k ? read_k_nibbles(bytes + 16, codes) : read_q5_k(bytes, out);
  case tensor_type::q6_k:
    return read_q6_k(bytes, out);
  case tensor_type::iq4_xs:
    return read_iq4_xs(bytes, out);
  case tensor_type::f32:
  case tensor_type::f16:
  case tensor_type::bf16:
  case tensor_type::f8_e4m3:
    break;
  }
  PACELINE_CHECK(false, "type " + std::to_string(static_cast<int>(type)) + " has no quantised blocks");
}

namespace {

float float_value(tensor_type type, const std::byte* at) noexcept {
  if (type == tensor_type::f16) return float_of_f16(u16(at));
  if (type == tensor_type::bf16) return float_of_bf16(u16(at));
  return std::bit_cast<float>(u32(at));
}

void dequantize_f8(std::span<const std::byte> bytes, std::span<float> out) {
  constexpr std::size_t block_bytes = f8_block::codes_at + f8_block::num_values;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* const block = bytes.data() + i / f8_block::num_values * block_bytes;
    out[i] = float_of_e4m3(u8(block + f8_block::codes_at + i % f8_block::num_values)) *
             std::bit_cast<float>(u32(block));
  }
}

} // namespace

void dequantize(tensor_type type, std::span<const std::byte> bytes, std::span<float> out) {
  const auto layout = traits_of(type);
  PACELINE_CHECK(layout && out.size() % layout->block_values == 0 &&
                     bytes.size() == out.size() / layout->block_values * layout->block_bytes,
                 "dequantize: " + std::to_string(bytes.size()) + " bytes for " + std::to_string(out.size()) +
                     " values");
  if (type == tensor_type::f8_e4m3) return dequantize_f8(bytes, out);
  const auto traits = quantised_traits_of(type);
  if (!traits) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = float_value(type, bytes.data() + i * layout->block_bytes);
    return;
  }
  stored_block block;
  for (std::size_t b = 0; b < out.size() / layout->block_values; ++b) {
    read_stored_block(type, bytes.data() + b * layout->block_bytes, block);
    const float d = float_of_f16(block.d), m = float_of_f16(block.m);
    float* const values = out.data() + b * layout->block_values;
    for (std::uint32_t i = 0; i < traits->num_values; ++i) {
      const std::uint32_t g = i / traits->group_values;
      // Both products are exact: 11 bits of a float16 times at most 13 bits of scale times code.
      const float value =
          d * static_cast<float>(block.scales[g]) * static_cast<float>(code_value(*traits, block.codes[i]));
      values[i] = traits->has_mins ? value + m * static_cast<float>(block.mins[g]) : value;
    }
  }
}

expected<void> check_tensor(std::string_view name, const tensor_view& tensor) {
  const auto fail = [&](const std::string& rule) {
    return error(errc::invalid_file, "tensor " + std::string(name) + ": " + rule);
  };
  const auto traits = traits_of(tensor.type);
  if (!traits) return fail("unknown type " + std::to_string(static_cast<std::uint32_t>(tensor.type)));
  constexpr std::uint64_t max_extent = std::numeric_limits<std::int32_t>::max();
  if (tensor.num_rows == 0 || tensor.num_rows > max_extent || tensor.num_cols == 0 ||
      tensor.num_cols > max_extent)
    return fail(std::to_string(tensor.num_rows) + " rows of " + std::to_string(tensor.num_cols) +
                " values: both must be within 1..2^31-1");
  if (tensor.num_cols % traits->block_values != 0)
    return fail("rows of " + std::to_string(tensor.num_cols) + " values are not whole blocks of " +
                std::string(traits->name) + ", " + std::to_string(traits->block_values) + " values each");
  // The product is below 2^31 * 2^31 * 4, so it does not overflow.
  const std::uint64_t size = tensor.num_rows * (tensor.num_cols / traits->block_values) * traits->block_bytes;
  if (tensor.bytes.size() != size)
    return fail("has " + std::to_string(tensor.bytes.size()) + " bytes where its shape makes " +
                std::to_string(size));
  return {};
}

} // namespace paceline::device
