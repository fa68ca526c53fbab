#pragma once

#include "runtime/device/float16.hpp"
#include "runtime/device/op_matmul.hpp"
#include "tests/gpu/kernels/sixteen_bit_reference.hpp"
#include "tests/gpu/tested_device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace paceline::gpu {

/// Value of memory that must not be written.
inline constexpr float guard = 12345.678F;

/// Weight formats with streamed products.
inline constexpr device::tensor_type streamed_types[] = {
    device::tensor_type::q4_0,   device::tensor_type::q4_1, device::tensor_type::q4_k,
    device::tensor_type::q5_0,   device::tensor_type::q5_k, device::tensor_type::q6_k,
    device::tensor_type::q8_0,   device::tensor_type::f16,  device::tensor_type::bf16,
    device::tensor_type::f8_e4m3};

/// BF16 weights with every other row multiplied by `size`.
inline test::stored_tensor uneven_rows(test::stored_tensor tensor, float size) {
  for (std::size_t i = 0; i < tensor.bytes.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &tensor.bytes[i], 2);
    const float row_size = i / (std::size_t{2} * tensor.num_cols) % 2 == 0 ? size : 1.0F;
    bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(device::float_of_bf16(bits) * row_size) >>
                                      16);
    std::memcpy(&tensor.bytes[i], &bits, 2);
  }
  return tensor;
}

/// Base of tests for products, in any arithmetic.
class product_test : public gpu_test {
 protected:
  using gpu_test::gpu_test;

  /// Rows of different magnitudes, with outliers and zeros.
  std::vector<float> rows(std::size_t num_rows, std::size_t num_cols) {
    auto x = values(num_rows * num_cols);
    for (std::size_t r = 0; r < num_rows; ++r) {
      float* const row = x.data() + r * num_cols;
      for (std::size_t k = 0; k < num_cols; ++k) row[k] *= std::exp2(static_cast<float>(r % 7) - 3);
      row[random_() % num_cols] = -300;
      if (r % 5 == 2) std::fill_n(row, num_cols, 0.0F);
    }
    return x;
  }

  /// y[num_rows][N]; rows of y are separated by three values, which must not change.
  std::vector<float> product(const device::matrix& weights, const std::vector<float>& x,
                             const std::vector<float>& bias = {}, float before = guard, bool add = false,
                             bool two_planes = false) {
    const auto num_rows = static_cast<std::uint32_t>(x.size() / weights.num_cols());
    const std::size_t width = weights.num_rows(), stride = width + 3;
    float* const y = upload(std::vector<float>(num_rows * stride, before));
    const device::matmul_output output{&weights, y, stride, bias.empty() ? nullptr : upload(bias), add};
    const float* const there = upload(x);
    run([&](device::ops& ops) {
      ops.matmul({there, weights.num_cols(), num_rows, weights.num_cols(), two_planes, {&output, 1}});
    });
    const auto all = download(y, num_rows * stride);
    std::vector<float> out;
    for (std::size_t r = 0; r < num_rows; ++r) {
      out.insert(out.end(), all.begin() + r * stride, all.begin() + r * stride + width);
      for (std::size_t i = width; i < stride; ++i) EXPECT_EQ(all[r * stride + i], before);
    }
    return out;
  }

  /// True if the product of `tensor` and the finite rows `x` is within the bounds of its contract; not for
  /// `arithmetic::reference`, which is exact.
  void expect_near(const test::stored_tensor& tensor, const std::vector<float>& x) {
    const auto num_rows = static_cast<std::uint32_t>(x.size() / tensor.num_cols);
    const auto expected = products_ == arithmetic::fast ? fast_reference(tensor.view(), x, num_rows)
                                                        : sixteen_bit_reference(tensor.view(), x, num_rows);
    const auto actual = product(*pack(tensor), x);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double error = std::fabs(actual[i] - expected[i].value);
      ASSERT_TRUE(error <= expected[i].bound) // false for NaN
          << device::traits_of(tensor.type)->name << " of " << tensor.num_rows << " x " << tensor.num_cols
          << ", row " << i / tensor.num_rows << " of " << num_rows << ", output " << i % tensor.num_rows
          << ": " << actual[i] << " is " << error << " off " << expected[i].value << ", more than "
          << expected[i].bound;
    }
  }
};

} // namespace paceline::gpu
