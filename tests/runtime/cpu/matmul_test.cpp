// Every kernel level has the bits of the definition, with any other rows and any division into threads and
// chunks.
#include "runtime/cpu/matmul.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/cpu/packed_layout.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/cpu/weight_arena.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/stored_block.hpp"
#include "tests/support/stored_tensors.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

namespace paceline::cpu {
const matmul_kernels& emulated_avx512_vnni_matmul_kernels();
const matmul_kernels& emulated_avx_vnni_matmul_kernels();
namespace {

using device::tensor_type;
using test::all_tensor_types;
using test::guarded_floats;
using test::same_bits;
using test::stored_tensor;

weight_arena arena;

struct tested_level {
  const char* name;
  kernel_level needs;
  const matmul_kernels& (*kernels)();
};

class matmul : public testing::TestWithParam<tested_level> {
 protected:
  void SetUp() override {
    if (!machine_runs(GetParam().needs)) GTEST_SKIP() << "this machine does not run " << GetParam().name;
    seed_ = std::random_device{}();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) printf("seed %u\n", seed_);
  }

  const matmul_kernels& kernels() const { return GetParam().kernels(); }

  /// Rows similar to those of models: normal values of different magnitudes, outliers, zero blocks, tiny
  /// ones.
  std::vector<float> activations(std::size_t num_rows, std::size_t num_cols) {
    std::normal_distribution<float> normal;
    std::vector<float> x(num_rows * num_cols);
    for (float& value : x) value = normal(random_);
    for (std::size_t r = 0; r < num_rows; ++r) {
      float* const row = x.data() + r * num_cols;
      for (std::size_t k = 0; k < num_cols; ++k) row[k] *= std::exp2(static_cast<float>(r % 7) - 3);
      row[random_() % num_cols] = 1000; // an outlier
      row[random_() % num_cols] = -3000;
      if (r % 3 == 1) std::fill_n(row + random_() % (num_cols / 32) * 32, 32, 0.0f);
      if (r % 4 == 2) std::fill_n(row + random_() % (num_cols / 32) * 32, 32, 0x1p-120f);
    }
    return x;
  }

  std::unique_ptr<const device::matrix> packed(const stored_tensor& tensor) {
    auto made = pack_matrix("weights", tensor.view(), arena);
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }

  /// y[num_rows][N] of one product.
  std::vector<float> product(const device::matrix& weights, std::span<const float> x, std::uint32_t num_rows,
                             std::uint32_t num_threads, bool two_planes = false) {
    thread_team::options opts;
    opts.num_threads = num_threads;
    thread_team team(opts);
    matmul_runner runner(team, kernels());
    guarded_floats y(std::size_t{num_rows} * weights.num_rows(), num_rows % 5);
    device::matmul_output output;
    output.weights = &weights;
    output.y = y.data();
    output.y_stride = weights.num_rows();
    device::matmul_args args;
    args.x = x.data();
    args.x_stride = weights.num_cols();
    args.num_rows = num_rows;
    args.num_cols = weights.num_cols();
    args.outputs = {&output, 1};
    args.two_planes = two_planes;
    runner.run(args);
    EXPECT_TRUE(y.intact());
    return {y.values().begin(), y.values().end()};
  }

  std::mt19937 random_;

 private:
  unsigned seed_ = 0;
};

TEST_P(matmul, equals_the_definition_for_every_type_and_size) {
  constexpr std::uint32_t most_rows = 33;
  for (const tensor_type type : all_tensor_types) {
    for (const std::uint32_t num_outputs : {1U, 16U, 37U}) {
      for (const std::uint32_t num_cols : test::some_widths(type)) {
        const stored_tensor tensor = test::random_tensor(type, num_outputs, num_cols, random_);
        const auto weights = packed(tensor);
        const auto x = activations(most_rows, num_cols);
        const auto expected = matmul_reference(tensor.view(), {x, most_rows});
        for (const std::uint32_t num_rows : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 17U, 33U}) {
          const auto actual = product(*weights, x, num_rows, 1 + num_rows % 2);
          ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
              << device::traits_of(type)->name << ", " << num_outputs << " outputs, " << num_cols
              << " columns, " << num_rows << " rows";
        }
      }
    }
  }
}

TEST_P(matmul, parts_of_a_tile_in_order_bring_the_bits_of_the_whole) {
  for (const tensor_type type : all_tensor_types) {
    if (device::is_floating(type)) continue;
    constexpr std::uint32_t num_cols = 768, num_blocks = num_cols / block_cols;
    const stored_tensor tensor = test::random_tensor(type, tile_rows, num_cols, random_);
    const auto weights = packed(tensor);
    const std::byte* const tile = dynamic_cast<const packed_matrix&>(*weights).tile(0);
    const auto by_rows = kernels().quantised(type);
    for (std::uint32_t n = 1; n <= max_kernel_rows; ++n) {
      const auto x = activations(n, num_cols);
      std::vector<activation_block> panel(std::size_t{n} * num_blocks);
      for (std::uint32_t r = 0; r < n; ++r)
        kernels().quantise(x.data() + std::size_t{r} * num_cols, num_blocks, panel.data() + r, n);
      alignas(64) float whole[max_kernel_rows * tile_rows], in_parts[max_kernel_rows * tile_rows];
      std::fill(std::begin(whole), std::end(whole), 7.0F); // irrelevant: each overwrites the tile
      std::fill(std::begin(in_parts), std::end(in_parts), -3.0F);
      by_rows[n - 1]({tile, num_blocks, 0, num_blocks}, panel.data(), whole);
      for (const auto& [begin, end] : {std::pair{0U, 8U}, {8U, 24U}})
        by_rows[n - 1]({tile, num_blocks, begin, end}, panel.data() + std::size_t{begin} * n, in_parts);
      ASSERT_EQ(std::memcmp(whole, in_parts, n * tile_rows * sizeof(float)), 0)
          << device::traits_of(type)->name << ", " << n << " rows";
    }
  }
}

TEST_P(matmul, two_planes_equal_the_definition_and_come_closer_to_exact_products) {
  constexpr std::uint32_t most_rows = 17;
  for (const tensor_type type : {tensor_type::f32, tensor_type::q4_1, tensor_type::q5_0, tensor_type::q6_k}) {
    const stored_tensor tensor = test::random_tensor(type, 37, 512, random_);
    const auto weights = packed(tensor);
    const auto x = activations(most_rows, 512);
    const auto expected = matmul_reference(tensor.view(), {x, most_rows, true});
    for (const std::uint32_t num_rows : {1U, 2U, 3U, 4U, 5U, 8U, 9U, 17U}) {
      const auto actual = product(*weights, x, num_rows, 1 + num_rows % 2, true);
      ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
    if (type == tensor_type::f32) continue;
    std::vector<float> values(std::size_t{37} * 512);
    device::dequantize(type, tensor.view().bytes, values);
    const auto one_plane = matmul_reference(tensor.view(), {x, most_rows});
    double error_of_one = 0;
    double error_of_two = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double exact = 0;
      for (std::size_t k = 0; k < 512; ++k)
        exact += static_cast<double>(x[i / 37 * 512 + k]) * static_cast<double>(values[i % 37 * 512 + k]);
      error_of_one += std::fabs(static_cast<double>(one_plane[i]) - exact);
      error_of_two += std::fabs(static_cast<double>(expected[i]) - exact);
    }
    EXPECT_LT(error_of_two, error_of_one / 50) << device::traits_of(type)->name;
  }
}

TEST_P(matmul, a_row_is_the_same_in_any_company) {
  constexpr std::uint32_t num_rows = 33;
  for (const tensor_type type : {tensor_type::q4_1, tensor_type::q8_0, tensor_type::q6_k, tensor_type::f16}) {
    const stored_tensor tensor = test::random_tensor(type, 530, 512, random_);
    const auto weights = packed(tensor);
    const auto x = activations(num_rows, 512);
    const auto together = product(*weights, x, num_rows, 2);
    std::vector<std::uint32_t> order(num_rows);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<float> shuffled;
    for (const std::uint32_t row : order) shuffled.insert(shuffled.end(), &x[row * 512], &x[row * 512] + 512);
    for (const std::uint32_t num_threads : {1U, 3U}) {
      const auto others = product(*weights, shuffled, num_rows, num_threads);
      for (std::uint32_t i = 0; i < num_rows; ++i)
        ASSERT_TRUE(same_bits(std::span(together).subspan(order[i] * 530, 530),
                              std::span(others).subspan(i * 530, 530)));
    }
    for (const std::uint32_t row : {0U, 8U, 32U}) {
      const auto alone = product(*weights, std::span(x).subspan(row * 512, 512), 1, 2);
      ASSERT_TRUE(same_bits(std::span(together).subspan(row * 530, 530), alone));
    }
  }
}

TEST_P(matmul, holds_the_largest_codes_and_activations_exactly) {
  for (const tensor_type type : all_tensor_types) {
    if (device::traits_of(type)->block_values == 1) continue;
    for (const int pattern : {0xff, 0x00, 0x80, 0x7f, 0x88}) {
      const stored_tensor tensor =
          test::filled_tensor(type, 17, 512, static_cast<std::byte>(pattern), random_);
      const auto weights = packed(tensor);
      std::vector<float> x(4 * 512);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float signs[] = {1, -1, k % 2 == 0 ? 1.0f : -1.0f, k % 32 < 16 ? 1.0f : -1.0f};
        x[k] = 127 * signs[k / 512]; // quantises to +-127
      }
      const auto expected = matmul_reference(tensor.view(), {x, 4});
      ASSERT_TRUE(same_bits(expected, product(*weights, x, 4, 1)))
          << device::traits_of(type)->name << " filled with " << pattern;
    }
  }
}

TEST_P(matmul, a_row_that_is_not_finite_spoils_itself_only) {
  for (const tensor_type type :
       {tensor_type::q4_1, tensor_type::q6_k, tensor_type::q8_0, tensor_type::bf16}) {
    const stored_tensor tensor = test::random_tensor(type, 40, 256, random_);
    const auto weights = packed(tensor);
    auto x = activations(5, 256);
    const auto clean = product(*weights, x, 5, 1);
    x[1 * 256 + 77] = std::numeric_limits<float>::quiet_NaN();
    x[3 * 256 + 200] = -std::numeric_limits<float>::infinity();
    const auto spoiled = product(*weights, x, 5, 2);
    for (const std::uint32_t row : {0U, 2U, 4U})
      EXPECT_TRUE(
          same_bits(std::span(clean).subspan(row * 40, 40), std::span(spoiled).subspan(row * 40, 40)));
    for (std::uint32_t n = 0; n < 40; ++n) {
      EXPECT_TRUE(std::isnan(spoiled[40 + n]));
      EXPECT_FALSE(std::isfinite(spoiled[120 + n]));
    }
  }
}

TEST_P(matmul, serves_several_matrices_with_bias_residual_and_strides) {
  constexpr std::uint32_t num_rows = 5, num_cols = 256;
  const tensor_type types[] = {tensor_type::q4_k, tensor_type::f32, tensor_type::q8_0};
  const std::uint32_t num_outputs[] = {50, 7, 33};
  const auto x = activations(num_rows, num_cols);
  guarded_floats x_wide(num_rows * (num_cols + 9), 1);
  for (std::uint32_t r = 0; r < num_rows; ++r)
    std::copy_n(x.data() + r * num_cols, num_cols, x_wide.data() + r * (num_cols + 9));

  std::vector<std::unique_ptr<const device::matrix>> weights;
  std::vector<guarded_floats> y;
  std::vector<std::vector<float>> expected, bias;
  std::vector<device::matmul_output> outputs(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const stored_tensor tensor = test::random_tensor(types[i], num_outputs[i], num_cols, random_);
    weights.push_back(packed(tensor));
    const auto plain = matmul_reference(tensor.view(), {x, num_rows});
    const std::size_t stride = num_outputs[i] + i;
    y.emplace_back(num_rows * stride, i);
    bias.push_back(activations(1, 64));
    expected.emplace_back(num_rows * stride);
    for (std::size_t at = 0; at < expected[i].size(); ++at) {
      const std::size_t row = at / stride, n = at % stride;
      const float before = y[i].data()[at] = static_cast<float>(at);
      if (n >= num_outputs[i]) {
        expected[i][at] = before; // between rows: unchanged
        continue;
      }
      float value = plain[row * num_outputs[i] + n];
      if (i != 1) value += bias[i][n];
      expected[i][at] = i != 0 ? before + value : value;
    }
    outputs[i] = {weights[i].get(), y[i].data(), stride, i != 1 ? bias[i].data() : nullptr, i != 0};
  }
  thread_team::options opts;
  opts.num_threads = 2;
  thread_team team(opts);
  matmul_runner runner(team, kernels());
  device::matmul_args args;
  args.x = x_wide.data();
  args.x_stride = num_cols + 9;
  args.num_rows = num_rows;
  args.num_cols = num_cols;
  args.outputs = outputs;
  runner.run(args);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(expected[i], y[i].values())) << "output " << i;
    EXPECT_TRUE(y[i].intact());
  }
}

INSTANTIATE_TEST_SUITE_P(
    levels, matmul,
    testing::Values(tested_level{"scalar", kernel_level::scalar, &scalar_matmul_kernels},
                    tested_level{"avx2", kernel_level::avx2, &avx2_matmul_kernels},
                    tested_level{"avx_vnni", kernel_level::avx_vnni, &avx_vnni_matmul_kernels},
                    tested_level{"avx_vnni_emulated", kernel_level::avx2, &emulated_avx_vnni_matmul_kernels},
                    tested_level{"avx512vnni", kernel_level::avx512_vnni, &avx512_vnni_matmul_kernels},
                    tested_level{"avx512vnni_emulated", kernel_level::avx2,
                                 &emulated_avx512_vnni_matmul_kernels}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(matmul_runner, refuses_weights_of_another_width) {
  std::mt19937 random(1);
  const stored_tensor tensor = test::random_tensor(tensor_type::q4_0, 16, 64, random);
  const auto weights = *pack_matrix("weights", tensor.view(), arena);
  thread_team team(thread_team::options{});
  cpu_ops ops(team, kernel_level::scalar);
  std::vector<float> x(96), y(16);
  device::matmul_output output;
  output.weights = weights.get();
  output.y = y.data();
  device::matmul_args args;
  args.x = x.data();
  args.num_rows = 1;
  args.num_cols = 96;
  args.outputs = {&output, 1};
  EXPECT_THROW(ops.matmul(args), check_failure);
}

} // namespace
} // namespace paceline::cpu
