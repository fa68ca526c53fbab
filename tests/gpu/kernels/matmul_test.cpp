// Products of a GPU against the definition: equal to the bit for every type, width and number of rows.
#include "runtime/base/check.hpp"
#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/stored_block.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/tensor_compare.hpp"

#include <cmath>
#include <limits>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using testing_support::all_tensor_types;
using testing_support::random_tensor;
using testing_support::same_bits;
using testing_support::stored_tensor;

constexpr float guard = 12345.678F;

class gpu_matmul : public gpu_test {
 protected:
  /// Rows as a model makes them: of differing sizes, with outliers, zero blocks and tiny ones.
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

  /// y[num_rows][N] of one product; rows of y lie three values apart, which must stay as they are.
  std::vector<float> product(const device::matrix& weights, const float* x, std::uint32_t num_rows,
                             bool two_planes = false) {
    const std::size_t width = weights.num_rows(), stride = width + 3;
    float* const y = upload(std::vector<float>(num_rows * stride, guard));
    const device::matmul_output output{&weights, y, stride, nullptr, false};
    run([&](device::ops& ops) {
      ops.matmul({x, weights.num_cols(), num_rows, weights.num_cols(), two_planes, {&output, 1}});
    });
    const auto all = download(y, num_rows * stride);
    std::vector<float> out;
    for (std::size_t r = 0; r < num_rows; ++r) {
      out.insert(out.end(), all.begin() + r * stride, all.begin() + r * stride + width);
      for (std::size_t i = width; i < stride; ++i) EXPECT_EQ(all[r * stride + i], guard);
    }
    return out;
  }
};

TEST_F(gpu_matmul, equals_the_definition_for_every_type_and_size) {
  constexpr std::uint32_t most_rows = 17;
  for (const tensor_type type : all_tensor_types) {
    for (const std::uint32_t num_outputs : {1U, 37U}) {
      for (const std::uint32_t num_cols : testing_support::some_widths(type)) {
        const stored_tensor tensor = random_tensor(type, num_outputs, num_cols, random_);
        const auto weights = pack(tensor);
        const auto x = activations(most_rows, num_cols);
        const auto expected = cpu::matmul_reference(tensor.view(), {x, most_rows});
        const float* const x_there = upload(x);
        for (const std::uint32_t num_rows : {1U, 3U, 8U, 17U}) {
          const auto actual = product(*weights, x_there, num_rows);
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
    const float* const x_there = upload(x);
    for (const std::uint32_t num_rows : {1U, 4U, 5U, 9U}) {
      const auto actual = product(*weights, x_there, num_rows, true);
      ASSERT_TRUE(same_bits(std::span(expected).first(actual.size()), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
  }
}

TEST_F(gpu_matmul, holds_the_largest_codes_and_activations_exactly) {
  for (const tensor_type type : all_tensor_types) {
    if (device::traits_of(type)->block_values == 1) continue;
    for (const int pattern : {0xff, 0x00, 0x80, 0x7f, 0x88}) {
      const auto tensor =
          testing_support::filled_tensor(type, 5, 512, static_cast<std::byte>(pattern), random_);
      std::vector<float> x(4 * 512);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const float signs[] = {1, -1, k % 2 == 0 ? 1.0F : -1.0F, k % 32 < 16 ? 1.0F : -1.0F};
        x[k] = 127 * signs[k / 512];
      }
      const auto expected = cpu::matmul_reference(tensor.view(), {x, 4});
      ASSERT_TRUE(same_bits(expected, product(*pack(tensor), upload(x), 4)))
          << device::traits_of(type)->name << " filled with " << pattern;
    }
  }
}

TEST_F(gpu_matmul, a_row_that_is_not_finite_spoils_itself_only) {
  for (const tensor_type type : {tensor_type::q4_1, tensor_type::q6_k, tensor_type::bf16}) {
    const auto weights = pack(random_tensor(type, 40, 256, random_));
    auto x = activations(5, 256);
    const auto clean = product(*weights, upload(x), 5);
    x[1 * 256 + 77] = std::numeric_limits<float>::quiet_NaN();
    x[3 * 256 + 200] = -std::numeric_limits<float>::infinity();
    const auto spoilt = product(*weights, upload(x), 5);
    for (const std::uint32_t row : {0U, 2U, 4U})
      EXPECT_TRUE(same_bits(std::span(clean).subspan(row * 40, 40), std::span(spoilt).subspan(row * 40, 40)));
    for (std::uint32_t n = 0; n < 40; ++n) {
      EXPECT_TRUE(std::isnan(spoilt[40 + n]));
      EXPECT_FALSE(std::isfinite(spoilt[120 + n]));
    }
  }
}

TEST_F(gpu_matmul, serves_several_matrices_with_bias_residual_and_strides) {
  constexpr std::uint32_t num_rows = 5, num_cols = 256;
  const tensor_type types[] = {tensor_type::q4_k, tensor_type::f32, tensor_type::q8_0};
  const std::uint32_t num_outputs[] = {50, 7, 33};
  const auto x = activations(num_rows, num_cols);
  std::vector<float> x_wide(num_rows * (num_cols + 9), guard);
  for (std::uint32_t r = 0; r < num_rows; ++r)
    std::copy_n(x.data() + r * num_cols, num_cols, x_wide.data() + r * (num_cols + 9));
  std::vector<std::unique_ptr<const device::matrix>> weights;
  std::vector<std::vector<float>> expected;
  std::vector<device::matmul_output> outputs;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const stored_tensor tensor = random_tensor(types[i], num_outputs[i], num_cols, random_);
    weights.push_back(pack(tensor));
    const auto plain = cpu::matmul_reference(tensor.view(), {x, num_rows});
    const auto bias = values(num_outputs[i]);
    const auto before = values(num_rows * num_outputs[i]);
    expected.emplace_back(plain);
    for (std::size_t at = 0; at < plain.size(); ++at) {
      if (i != 1) expected[i][at] += bias[at % num_outputs[i]];
      if (i != 0) expected[i][at] = before[at] + expected[i][at];
    }
    outputs.push_back(
        {weights[i].get(), upload(before), num_outputs[i], i != 1 ? upload(bias) : nullptr, i != 0});
  }
  const float* const x_there = upload(x_wide);
  run([&](device::ops& ops) { ops.matmul({x_there, num_cols + 9, num_rows, num_cols, false, outputs}); });
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_TRUE(same_bits(expected[i], download(outputs[i].y, expected[i].size()))) << "output " << i;
}

TEST_F(gpu_matmul, refuses_weights_of_another_width_or_device) {
  const auto weights = pack(random_tensor(tensor_type::q4_0, 16, 64, random_));
  float* const x = upload(std::vector<float>(96));
  const device::matmul_output narrow{weights.get(), x, 16, nullptr, false};
  auto done = stream_->submit("narrow", {}, [&](device::ops& ops) {
    ops.matmul({x, 96, 1, 96, false, {&narrow, 1}});
  });
  done.wait();
  EXPECT_NE(done.failure().value().message().find("64 columns"), std::string::npos);
  const device::matmul_output missing{nullptr, x, 16, nullptr, false};
  done = stream_->submit("missing", {}, [&](device::ops& ops) {
    ops.matmul({x, 64, 1, 64, false, {&missing, 1}});
  });
  done.wait();
  EXPECT_NE(done.failure().value().message().find("not of cuda:0"), std::string::npos);
}

TEST_F(gpu_matmul, embed_gives_the_dequantised_rows_of_every_type) {
  const std::vector<token_id> tokens{token_id{49}, token_id{0}, token_id{17}, token_id{17}};
  for (const tensor_type type : all_tensor_types) {
    for (const std::uint32_t width : testing_support::some_widths(type)) {
      const stored_tensor tensor = random_tensor(type, 50, width, random_);
      std::vector<float> all(50 * width), expected;
      device::dequantize(type, tensor.bytes, all);
      for (const token_id token : tokens)
        for (std::uint32_t k = 0; k < width; ++k)
          expected.push_back(all[static_cast<std::size_t>(token.value) * width + k] * 24.5F);
      const auto table = pack(tensor);
      float* const out = upload(std::vector<float>(tokens.size() * width, guard));
      run([&](device::ops& ops) { ops.embed({table.get(), tokens, out, width, 24.5F}); });
      ASSERT_TRUE(same_bits(expected, download(out, expected.size()))) << device::traits_of(type)->name;
    }
  }
}

TEST_F(gpu_matmul, embed_refuses_tokens_outside_the_vocabulary) {
  const auto table = pack(random_tensor(tensor_type::q8_0, 20, 32, random_));
  float* const out = upload(std::vector<float>(32));
  for (const std::int32_t token : {-1, 20, std::numeric_limits<std::int32_t>::min()}) {
    const std::vector<token_id> tokens{token_id{token}};
    const auto done = stream_->submit("embed", {}, [&](device::ops& ops) {
      ops.embed({table.get(), tokens, out, 32, 1});
    });
    done.wait();
    EXPECT_NE(done.failure().value().message().find("outside the vocabulary"), std::string::npos);
  }
}

} // namespace
} // namespace paceline::gpu
