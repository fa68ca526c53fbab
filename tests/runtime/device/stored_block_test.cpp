#include "runtime/device/stored_block.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace paceline::device {
namespace {

/// Blocks of one format and the values an independent implementation makes of them
/// (tools/make_dequantize_fixture.py).
struct golden {
  tensor_type type;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<golden> read_fixture() {
  std::ifstream file(PACELINE_SOURCE_DIR "/tests/fixtures/dequantize.bin", std::ios::binary);
  const std::vector<char> data{std::istreambuf_iterator<char>(file), {}};
  std::vector<golden> all;
  for (std::size_t at = 0; at + 12 <= data.size();) {
    std::uint32_t header[3];
    std::memcpy(header, &data[at], sizeof header);
    at += sizeof header;
    golden item{static_cast<tensor_type>(header[0]), std::vector<std::byte>(header[1]),
                std::vector<float>(header[2])};
    std::memcpy(item.bytes.data(), &data[at], header[1]);
    std::memcpy(item.values.data(), &data[at + header[1]], header[2] * sizeof(float));
    at += header[1] + header[2] * sizeof(float);
    all.push_back(std::move(item));
  }
  return all;
}

TEST(dequantize, equals_an_independent_implementation_for_every_format) {
  const auto all = read_fixture();
  ASSERT_EQ(all.size(), 15U);
  for (const golden& item : all) {
    std::vector<float> values(item.values.size());
    dequantize(item.type, item.bytes, values);
    EXPECT_TRUE(test::same_bits(item.values, values)) << traits_of(item.type)->name;
  }
}

TEST(dequantize, refuses_sizes_that_do_not_match) {
  const std::vector<std::byte> bytes(18);
  std::vector<float> values(64);
  EXPECT_THROW(dequantize(tensor_type::q4_0, bytes, values), check_failure);
  EXPECT_THROW(dequantize(tensor_type::q4_0, bytes, std::span(values).first(31)), check_failure);
}

TEST(dequantize, every_e4m3_code_times_its_blocks_scale_has_the_value_of_its_definition) {
  const float scales[] = {1, -0.0123F, 0x1p90F, 0x1.8p-130F};
  std::vector<std::byte> bytes;
  std::vector<float> expected;
  for (std::uint32_t block = 0; block < 16; ++block) { // all codes with each scale
    const auto* const scale = reinterpret_cast<const std::byte*>(&scales[block / 4]);
    bytes.insert(bytes.end(), scale, scale + sizeof(float));
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t code = block % 4 * 64 + i, exponent = code >> 3 & 15U, fraction = code & 7U;
      bytes.push_back(static_cast<std::byte>(code));
      const double magnitude = exponent == 0
                                   ? fraction * std::exp2(-9)
                                   : (1 + fraction / 8.0) * std::exp2(static_cast<int>(exponent) - 7);
      expected.push_back(
          static_cast<float>((code < 128 ? magnitude : -magnitude) * double{scales[block / 4]}));
      EXPECT_EQ(float_of_e4m3(static_cast<std::uint8_t>(code)), code < 128 ? magnitude : -magnitude);
    }
  }
  std::vector<float> values(expected.size());
  dequantize(tensor_type::f8_e4m3, bytes, values);
  EXPECT_TRUE(test::same_bits(expected, values));
  EXPECT_EQ(values[126], 448) << "the largest";
}

TEST(float16, every_half_survives_the_way_to_float_and_back) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_of_f16(half);
    if ((bits & 0x7fffU) > 0x7c00U) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(float_of_f16(f16_of_float(value))));
      continue;
    }
    const int exponent = bits >> 10 & 31U, fraction = bits & 0x3ffU;
    const double expected = exponent == 31  ? INFINITY
                            : exponent == 0 ? std::ldexp(fraction, -24)
                                            : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, static_cast<float>(bits & 0x8000U ? -expected : expected)) << bits;
    ASSERT_EQ(f16_of_float(value), half);
  }
}

TEST(float16, rounds_to_the_nearest_half_and_ties_to_even) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) { // every pair of neighbours and the point between them
    const float low = float_of_f16(static_cast<std::uint16_t>(bits));
    const float high = float_of_f16(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2; // exact
    ASSERT_EQ(f16_of_float(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(f16_of_float(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(f16_of_float(-std::nextafter(middle, high)), (bits + 1) | 0x8000U);
  }
  EXPECT_EQ(f16_of_float(65519.99f), 0x7bff);
  EXPECT_EQ(f16_of_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_of_float(-INFINITY), 0xfc00);
}

} // namespace
} // namespace paceline::device
