// Products of a GPU have the bits of the definition, for every type, width and number of rows.
#include "runtime/base/check.hpp"
#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/stored_block.hpp"
#include "tests/gpu/kernels/product_test.hpp"
#include "tests/support/tensor_compare.hpp"

#include <cmath>
#include <limits>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::all_tensor_types;
using test::random_tensor;
using test::same_bits;
using test::stored_tensor;

class gpu_matmul : public product_test {
 protected:
  /// Rows similar to those of models: with different magnitudes, outliers, zero blocks and tiny ones.
  std::vector<float> activations(std::size_t num_rows, std::size_t num_cols) {
    auto x = values(num_rows * num_cols);
    for (std::size_t r = 0; r < num_rows; ++r) {
      float* const row = x.data() + r * num_cols;
      for (std::size_t k = 0; k < num_cols; ++k) row[k] *= std::exp2(static_cast<float>(r % 7) - 3);
      row[random_() % num_cols] = 1000;
      row[random_() % num_cols] = -3000;
      if (r % 3 == 1) std::fill_n(row + random_() % (num_cols / 32) * 32, 32, 0.0F);
      if (r % 4 == 2) std::fill_n(row + random_() % (num_cols / 32) * 32, 32, 0x1p-120F);
    }
    return x;
  }
};

TEST_F(gpu_matmul, equals_the_definition_for_every_type_and_size) {
  constexpr std::uint32_t most_rows = 17;
  for (const tensor_type type : all_tensor_types) {
    for (const std::uint32_t num_outputs : {1U, 37U}) {
      for (const std::uint32_t num_cols : test::some_widths(type)) {
        const stored_tensor tensor = random_tensor(type, num_outputs, num_cols, random_);
        const auto weights = pack(tensor);
        const auto x = activations(most_rows, num_cols);
        const auto expected = cpu::matmul_reference(tensor.view(), {x, most_rows});
        for (const std::uint32_t num_rows : {1U, 3U, 8U, 17U}) {
          const auto actual = product(*weights, {x.begin(), x.begin() + std::size_t{num_rows} * num_cols});
          ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
              << device::traits_of(type)->name << ", " << num_outputs << " outputs, " << num_cols
              << " columns, " << num_rows << " rows";
        }
      }
    }
  }
}

TEST_F(gpu_matmul, two_planes_equal_the_definition) {
  for (const tensor_type type : {tensor_type::f32, tensor_type::q4_1, tensor_type::q5_0, tensor_type::q6_k}) {
    const stored_tensor tensor = random_tensor(type, 37, 512, random_);
    const auto weights = pack(tensor);
    const auto x = activations(9, 512);
    const auto expected = cpu::matmul_reference(tensor.view(), {x, 9, true});
    for (const std::uint32_t num_rows : {1U, 4U, 5U, 9U}) {
      const auto actual = product(*weights, {x.begin(), x.begin() + num_rows * 512}, {}, guard, false, true);
      ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
  }
}

TEST_F(gpu_matmul, holds_the_largest_codes_and_activations_exactly) {
  for (const tensor_type type : all_tensor_types) {
    if (device::traits_of(type)->block_values == 1) continue;
    for (const int pattern : {0xff, 0x00, 0x80, 0x7f, 0x88}) {
      const auto tensor = test::filled_tensor(type, 5, 512, static_cast<std::byte>(pattern), random_);
      std::vector<float> x(4 * 512);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float signs[] = {1, -1, k % 2 == 0 ? 1.0F : -1.0F, k % 32 < 16 ? 1.0F : -1.0F};
        x[k] = 127 * signs[k / 512];
      }
      const auto expected = cpu::matmul_reference(tensor.view(), {x, 4});
      ASSERT_TRUE(same_bits(expected, product(*pack(tensor), x)))
          << device::traits_of(type)->name << " filled with " << pattern;
    }
  }
}

} // namespace
} // namespace paceline::gpu
