// Properties of products in every arithmetic of a GPU, and of embedding, which has only one.
#include "runtime/base/check.hpp"
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
using test::random_tensor;
using test::same_bits;
using test::stored_tensor;

class any_matmul : public product_test, public testing::WithParamInterface<arithmetic> {
 protected:
  any_matmul() : product_test(GetParam()) {}

  /// More rows than strict mode multiplies while reading weights once.
  static constexpr std::uint32_t num_rows = 70;
};

TEST_P(any_matmul, a_row_that_is_not_finite_spoils_itself_only) {
  for (const tensor_type type :
       {tensor_type::q4_1, tensor_type::q6_k, tensor_type::f16, tensor_type::bf16, tensor_type::f8_e4m3}) {
    const auto weights = pack(random_tensor(type, 40, 256, random_));
    auto x = rows(num_rows, 256);
    const auto clean = product(*weights, x);
    x[1 * 256 + 77] = std::numeric_limits<float>::quiet_NaN();
    x[69 * 256 + 200] = -std::numeric_limits<float>::infinity();
    const auto spoilt = product(*weights, x);
    for (std::uint32_t row = 0; row < num_rows; ++row) {
      const auto before = std::span(clean).subspan(row * 40, 40),
                 after = std::span(spoilt).subspan(row * 40, 40);
      if (row != 1 && row != 69)
        EXPECT_TRUE(same_bits(before, after)) << row;
      else
        for (const float y : after) EXPECT_FALSE(std::isfinite(y)) << row;
    }
  }
}

TEST_P(any_matmul, serves_several_matrices_of_any_kind_with_bias_residual_and_strides) {
  constexpr std::uint32_t num_cols = 512;
  const tensor_type types[] = {tensor_type::q4_k, tensor_type::f32, tensor_type::q8_0, tensor_type::q5_1};
  const std::uint32_t num_outputs[] = {50, 7, 33, 10};
  const auto x = rows(num_rows, num_cols);
  std::vector<float> x_wide(num_rows * (num_cols + 9), guard);
  for (std::uint32_t r = 0; r < num_rows; ++r)
    std::copy_n(x.data() + r * num_cols, num_cols, x_wide.data() + r * (num_cols + 9));
  std::vector<std::unique_ptr<const device::matrix>> weights;
  std::vector<std::vector<float>> expected;
  std::vector<device::matmul_output> outputs;
  for (std::uint32_t i = 0; i < 4; ++i) {
    weights.push_back(pack(random_tensor(types[i], num_outputs[i], num_cols, random_)));
    const auto bias = values(num_outputs[i]), before = values(num_rows * num_outputs[i]);
    auto& y = expected.emplace_back(product(*weights[i], x));
    for (std::size_t at = 0; at < y.size(); ++at) {
      if (i != 1) y[at] += bias[at % num_outputs[i]];
      if (i != 0) y[at] = before[at] + y[at];
    }
    outputs.push_back(
        {weights[i].get(), upload(before), num_outputs[i], i != 1 ? upload(bias) : nullptr, i != 0});
  }
  const float* const x_there = upload(x_wide);
  run([&](device::ops& ops) { ops.matmul({x_there, num_cols + 9, num_rows, num_cols, false, outputs}); });
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(same_bits(expected[i], download(outputs[i].y, expected[i].size()))) << "output " << i;
}

TEST_P(any_matmul, refuses_weights_of_another_width_or_device) {
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

TEST_P(any_matmul, embed_gives_the_dequantised_rows_of_every_type) {
  const std::vector<token_id> tokens{token_id{49}, token_id{0}, token_id{17}, token_id{17}};
  for (const tensor_type type : test::all_tensor_types) {
    for (const std::uint32_t width : test::some_widths(type)) {
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

TEST_P(any_matmul, embed_refuses_tokens_outside_the_vocabulary) {
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

INSTANTIATE_TEST_SUITE_P(gpu, any_matmul,
                         testing::Values(arithmetic::reference, arithmetic::sixteen_bit, arithmetic::fast),
                         [](const auto& of) {
                           return of.param == arithmetic::reference     ? "reference"
                                  : of.param == arithmetic::sixteen_bit ? "sixteen_bit"
                                                                        : "fast";
                         });

} // namespace
} // namespace paceline::gpu
