// Products with 16-bit activations (gpu/kernels/sixteen_bit.hpp) are near the exact sums of their contract,
// and each row has the same bits for any other rows in the product.
#include "gpu/kernels/streamed_layout.hpp"
#include "gpu/split_columns.hpp"
#include "runtime/base/check.hpp"
#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/stored_block.hpp"
#include "tests/gpu/kernels/product_test.hpp"
#include "tests/gpu/kernels/sixteen_bit_reference.hpp"
#include "tests/support/tensor_compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::same_bits;
using test::stored_tensor;

std::string name_of(tensor_type type) { return std::string(device::traits_of(type)->name); }

class streamed_matmul : public product_test {
 protected:
  streamed_matmul() : product_test(arithmetic::sixteen_bit) {}
};

TEST_F(streamed_matmul, keeps_to_the_bounds_of_its_contract_for_every_type_and_size) {
  for (const tensor_type type : streamed_types) {
    for (const std::uint32_t num_outputs : {1U, 37U}) {
      for (const std::uint32_t num_cols : test::some_widths(type)) {
        const stored_tensor tensor = random_tensor(type, num_outputs, num_cols, random_);
        const auto x = rows(17, num_cols);
        for (const std::uint32_t num_rows : {1U, 17U})
          ASSERT_NO_FATAL_FAILURE(
              expect_near(tensor, {x.begin(), x.begin() + std::size_t{num_rows} * num_cols}));
      }
    }
  }
}

TEST_F(streamed_matmul, keeps_to_the_bounds_for_several_blocks_of_rows_and_splits_of_uneven_lengths) {
  for (const tensor_type type :
       {tensor_type::q4_k, tensor_type::q5_0, tensor_type::bf16, tensor_type::f8_e4m3}) {
    const std::uint32_t num_cols = 2304; // nine units
    ASSERT_EQ(split_columns(260, num_cols).num_splits, 9U);
    ASSERT_NO_FATAL_FAILURE(expect_near(random_tensor(type, 260, num_cols, random_), rows(5, num_cols)));
  }
  const std::uint32_t num_cols = 257 * split_cols; // two units a split, and one in the last
  ASSERT_EQ(split_columns(130, num_cols).num_splits, 129U);
  ASSERT_NO_FATAL_FAILURE(
      expect_near(random_tensor(tensor_type::q4_0, 130, num_cols, random_), rows(2, num_cols)));
}

/// The slots of tiles and headers are reused several times.
TEST_F(streamed_matmul, keeps_to_the_bounds_where_a_split_is_much_longer_than_what_is_under_way) {
  const std::uint32_t num_cols = 2049 * split_cols; // five units a split
  ASSERT_EQ(split_columns(3, num_cols).tiles_of_split, 20U);
  for (const tensor_type type : streamed_types) {
    ASSERT_LT(2 * streamed_layout_of(type).stages, 20U);
    ASSERT_NO_FATAL_FAILURE(expect_near(random_tensor(type, 3, num_cols, random_), rows(2, num_cols)));
  }
}

/// Codes and scales of 0 and 1, no minima. The core must not overestimate an outlier among the activations,
/// because it cuts off the sum below a level relative to it.
TEST_F(streamed_matmul, small_weights_beside_an_outlier_are_as_exact_as_others) {
  for (const tensor_type type : {tensor_type::q4_k, tensor_type::q5_k}) {
    stored_tensor tensor = random_tensor(type, 40, 256, random_);
    const std::size_t block_bytes = device::traits_of(type)->block_bytes;
    for (std::size_t at = 0; at < tensor.bytes.size(); ++at) {
      constexpr std::size_t scales = 4, fields = 12; // after two float16, of scales and minima
      const std::size_t in_block = at % block_bytes;
      if (in_block < scales) continue;
      const bool has_scales = in_block < scales + 4 || (in_block >= scales + 8 && in_block < scales + fields);
      const bool has_codes = in_block >= block_bytes - 128;
      tensor.bytes[at] &= std::byte(has_scales ? 0x01 : has_codes ? 0x11 : 0);
    }
    ASSERT_NO_FATAL_FAILURE(expect_near(tensor, rows(9, 256)));
  }
}

TEST_F(streamed_matmul, the_rounding_of_activations_is_all_that_sets_it_apart_from_float32) {
  for (const tensor_type type : streamed_types) {
    const stored_tensor tensor = random_tensor(type, 33, 512, random_);
    std::vector<float> x(4 * 512);
    for (float& v : x) v = static_cast<float>(static_cast<int>(random_() % 2001) - 1000); // fit 11 bits
    const auto expected = sixteen_bit_reference(tensor.view(), x, 4);
    std::vector<float> weights(33 * 512);
    device::dequantize(type, tensor.bytes, weights);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double sum = 0, terms = 0;
      for (std::size_t k = 0; k < 512; ++k) {
        const double term = double{weights[i % 33 * 512 + k]} * x[i / 33 * 512 + k];
        sum += term, terms += std::fabs(term);
      }
      EXPECT_NEAR(expected[i].value, sum, terms * 0x1p-23) << name_of(type); // dequantize rounds
    }
  }
}

TEST_F(streamed_matmul, a_rows_result_does_not_depend_on_its_company_or_its_place) {
  for (const tensor_type type : streamed_types) {
    const std::uint32_t num_outputs = type == tensor_type::q4_k ? 150 : 21;
    const std::uint32_t block = device::traits_of(type)->block_values;
    const std::uint32_t num_cols = block == 256 ? 768 : block == 64 ? 576 : 544;
    const auto weights = pack(random_tensor(type, num_outputs, num_cols, random_));
    const auto x = rows(80, num_cols);
    const auto together = product(*weights, x);
    for (const std::uint32_t num_rows : {1U, 2U, 3U, 5U, 8U, 9U, 16U, 17U, 33U, 64U}) {
      std::vector<std::uint32_t> chosen(80);
      std::iota(chosen.begin(), chosen.end(), 0U);
      std::ranges::shuffle(chosen, random_);
      std::vector<float> some, expected;
      for (std::uint32_t r = 0; r < num_rows; ++r) {
        const auto at = std::size_t{chosen[r]};
        some.insert(some.end(), x.begin() + at * num_cols, x.begin() + (at + 1) * num_cols);
        expected.insert(expected.end(), together.begin() + at * num_outputs,
                        together.begin() + (at + 1) * num_outputs);
      }
      ASSERT_TRUE(same_bits(expected, product(*weights, some)))
          << name_of(type) << ", " << num_rows << " rows";
    }
  }
}

TEST_F(streamed_matmul, a_weight_that_is_not_finite_spoils_its_output_only) {
  for (const tensor_type type : {tensor_type::f16, tensor_type::bf16}) {
    stored_tensor tensor = random_tensor(type, 40, 96, random_);
    const auto x = rows(3, 96); // the last row is zeros: zero times infinity is NaN
    const auto clean = product(*pack(tensor), x);
    const std::uint16_t infinity = type == tensor_type::f16 ? 0x7c00 : 0x7f80;
    const std::uint16_t not_a_number = infinity | 0x40;
    std::memcpy(&tensor.bytes[(7 * 96 + 50) * 2], &infinity, 2);
    std::memcpy(&tensor.bytes[(33 * 96 + 1) * 2], &not_a_number, 2);
    const auto spoilt = product(*pack(tensor), x);
    for (std::size_t i = 0; i < clean.size(); ++i) {
      if (i % 40 == 7 || i % 40 == 33)
        EXPECT_FALSE(std::isfinite(spoilt[i])) << i;
      else
        EXPECT_TRUE(same_bits(std::span(clean).subspan(i, 1), std::span(spoilt).subspan(i, 1))) << i;
    }
  }
}

TEST_F(streamed_matmul, rows_of_any_magnitude_are_as_exact_as_others) {
  for (const tensor_type type :
       {tensor_type::q4_0, tensor_type::q5_k, tensor_type::f16, tensor_type::bf16, tensor_type::f8_e4m3}) {
    const stored_tensor tensor = random_tensor(type, 19, 256, random_);
    auto x = rows(5, 256);
    const float sizes[] = {0x1p-140F, 0x1p-90F, 1, 0x1p60F, 0x1p100F};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * sizes[i / 256];
    auto expected = sixteen_bit_reference(tensor.view(), x, 5);
    const auto actual = product(*pack(tensor), x);
    for (std::size_t i = 0; i < actual.size(); ++i) // the smallest are subnormal
      ASSERT_TRUE(std::fabs(actual[i] - expected[i].value) <= expected[i].bound + 0x1p-148)
          << name_of(type) << ", row " << i / 19 << ": " << actual[i] << " for " << expected[i].value;
  }
}

TEST_F(streamed_matmul, a_scale_of_fp8_that_is_not_a_number_spoils_its_output_only) {
  stored_tensor tensor = random_tensor(tensor_type::f8_e4m3, 40, 192, random_);
  const auto x = rows(3, 192);
  const auto clean = product(*pack(tensor), x);
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&tensor.bytes[(7 * 3 + 1) * 68], &not_a_number, 4);
  const auto spoilt = product(*pack(tensor), x);
  for (std::size_t i = 0; i < clean.size(); ++i) {
    if (i % 40 == 7)
      EXPECT_TRUE(std::isnan(spoilt[i])) << i;
    else
      EXPECT_TRUE(same_bits(std::span(clean).subspan(i, 1), std::span(spoilt).subspan(i, 1))) << i;
  }
}

TEST_F(streamed_matmul, scales_of_fp8_of_any_magnitude_are_themselves) {
  for (const float size : {0x1p-100F, 0x1p-20F, 0x1p60F, 0x1p90F}) {
    stored_tensor tensor = random_tensor(tensor_type::f8_e4m3, 20, 192, random_);
    for (std::size_t block = 0; block < 60; ++block) {
      float scale = 0;
      std::memcpy(&scale, &tensor.bytes[block * 68], 4);
      scale *= block % 2 == 0 ? size : 1.0F;
      std::memcpy(&tensor.bytes[block * 68], &scale, 4);
    }
    ASSERT_NO_FATAL_FAILURE(expect_near(tensor, rows(2, 192)));
  }
}

TEST_F(streamed_matmul, bf16_weights_of_any_magnitude_are_themselves) {
  for (const float size : {0x1p-120F, 0x1p-20F, 0x1p30F, 0x1p100F})
    ASSERT_NO_FATAL_FAILURE(
        expect_near(uneven_rows(random_tensor(tensor_type::bf16, 20, 96, random_), size), rows(2, 96)));
}

TEST_F(streamed_matmul, holds_the_largest_codes_and_activations) {
  for (const tensor_type type : streamed_types) {
    if (device::traits_of(type)->block_values == 1) continue;
    for (const int pattern : {0xff, 0x00, 0x80, 0x7f, 0x88}) {
      const auto tensor = test::filled_tensor(type, 5, 512, static_cast<std::byte>(pattern), random_);
      std::vector<float> x(4 * 512);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float signs[] = {1, -1, k % 2 == 0 ? 1.0F : -1.0F, k % 32 < 16 ? 1.0F : -1.0F};
        x[k] = 65504 * signs[k / 512];
      }
      ASSERT_NO_FATAL_FAILURE(expect_near(tensor, x)) << pattern;
    }
  }
}

TEST(streamed_layout, every_code_has_a_place_of_its_own_and_a_way_back) {
  std::vector<bool> taken(16 * 64);
  for (std::uint32_t row = 0; row < 16; ++row) {
    for (std::uint32_t col = 0; col < 64; ++col) {
      const code_place at = place_in_tile(row, col);
      ASSERT_LT(at.lane, 32U);
      const std::uint32_t index = ((at.lane * 4 + at.step) * 4 + at.pair) * 2 + at.half;
      EXPECT_FALSE(taken.at(index));
      taken[index] = true;
      EXPECT_EQ(row_in_tile(at), row);
      EXPECT_EQ(col_in_tile(at), col);
    }
  }
}

TEST(split_columns, cover_the_width_in_whole_units_for_every_shape) {
  for (const std::uint32_t num_rows : {1U, 128U, 129U, 1024U, 4096U, 14336U, 128256U, 2147483647U}) {
    for (const std::uint32_t num_cols : {1U, 32U, 256U, 257U, 576U, 4096U, 14336U, 2147483647U}) {
      const column_splits splits = split_columns(num_rows, num_cols);
      ASSERT_GT(splits.num_splits, 0U);
      ASSERT_LE(splits.num_splits, 512U);
      EXPECT_EQ(splits.tiles_of_split % tiles_of_split_unit, 0U);
      const std::uint64_t of_split = std::uint64_t{splits.tiles_of_split} * tile_cols;
      EXPECT_GE(of_split * splits.num_splits, num_cols) << "nothing is left out";
      EXPECT_LT(of_split * (splits.num_splits - 1), num_cols) << "no split is empty";
    }
  }
}

TEST(multiplier_to_f16, brings_the_largest_value_to_where_float16_has_most_bits) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    const float largest = std::ldexp(1.0F, exponent);
    const float brought = largest * multiplier_to_f16(largest);
    if (exponent >= -112)
      EXPECT_EQ(brought, 0x1p14F) << exponent;
    else
      EXPECT_EQ(brought, largest * 0x1p126F) << exponent;
    EXPECT_TRUE(std::isnormal(1.0F / multiplier_to_f16(largest)));
  }
  EXPECT_EQ(multiplier_to_f16(std::numeric_limits<float>::max()), 0x1p-113F);
  EXPECT_EQ(multiplier_to_f16(0), 0x1p126F);
  EXPECT_TRUE(std::isnan(multiplier_to_f16(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(std::isnan(multiplier_to_f16(std::numeric_limits<float>::quiet_NaN())));
}

} // namespace
} // namespace paceline::gpu
