// Products of fast mode (gpu/kernels/sixteen_bit.hpp): with more than 64 rows, within their error bound. With
// fewer rows they have the bits of strict mode (tests/gpu/blas_products_test.cpp).
#include "gpu/blas_products.hpp"
#include "runtime/cpu/matmul_reference.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"
#include "tests/gpu/kernels/product_test.hpp"
#include "tests/gpu/kernels/sixteen_bit_reference.hpp"
#include "tests/support/tensor_compare.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::same_bits;
using test::stored_tensor;

class fast_matmul : public product_test {
 protected:
  fast_matmul() : product_test(arithmetic::fast) {}
};

TEST_F(fast_matmul, keeps_to_the_bounds_of_its_contract_for_every_type_and_size) {
  for (const tensor_type type : streamed_types)
    for (const std::uint32_t num_outputs : {1U, 21U})
      for (const std::uint32_t num_cols : test::some_widths(type))
        ASSERT_NO_FATAL_FAILURE(
            expect_near(random_tensor(type, num_outputs, num_cols, random_), rows(67, num_cols)));
}

TEST_F(fast_matmul, weights_of_16_bits_are_not_rounded) {
  // Sums of integers that fit float32 are exact in any order.
  for (const tensor_type type : {tensor_type::f16, tensor_type::bf16}) {
    stored_tensor tensor = random_tensor(type, 21, 96, random_);
    std::vector<float> weights(21 * 96), x(70 * 96);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(static_cast<int>(random_() % 201) - 100);
      const auto bits = type == tensor_type::f16
                            ? device::f16_of_float(weights[i])
                            : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(weights[i]) >> 16);
      std::memcpy(&tensor.bytes[i * 2], &bits, 2);
    }
    for (float& v : x) v = static_cast<float>(static_cast<int>(random_() % 2001) - 1000);
    const auto actual = product(*pack(tensor), x);
    for (std::size_t r = 0; r < 70; ++r) {
      for (std::size_t n = 0; n < 21; ++n) {
        double sum = 0;
        for (std::size_t k = 0; k < 96; ++k) sum += double{weights[n * 96 + k]} * x[r * 96 + k];
        ASSERT_EQ(actual[r * 21 + n], sum) << device::traits_of(type)->name << ", " << r << ", " << n;
      }
    }
  }
}

TEST_F(fast_matmul, cuts_many_rows_and_outputs_into_slabs) {
  ASSERT_NO_FATAL_FAILURE(expect_near(random_tensor(tensor_type::q4_0, 21, 32, random_), rows(2051, 32)));
  ASSERT_EQ(blas_slabs::outputs_for(32), 4096U);
  ASSERT_NO_FATAL_FAILURE(expect_near(random_tensor(tensor_type::q8_0, 4105, 32, random_), rows(65, 32)));
  ASSERT_NO_FATAL_FAILURE(expect_near(random_tensor(tensor_type::bf16, 4105, 16, random_), rows(65, 16)));
}

TEST_F(fast_matmul, rows_and_weights_of_any_magnitude_are_as_exact_as_others) {
  for (const tensor_type type :
       {tensor_type::q4_0, tensor_type::q5_k, tensor_type::f16, tensor_type::bf16, tensor_type::f8_e4m3}) {
    const stored_tensor tensor = random_tensor(type, 19, 256, random_);
    auto x = rows(66, 256);
    const float sizes[] = {0x1p-100F, 0x1p-90F, 1, 0x1p60F, 0x1p100F};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * sizes[i / 256 % 5];
    ASSERT_NO_FATAL_FAILURE(expect_near(tensor, x));
  }
  for (const float size : {0x1p-120F, 0x1p30F, 0x1p100F})
    ASSERT_NO_FATAL_FAILURE(
        expect_near(uneven_rows(random_tensor(tensor_type::bf16, 20, 96, random_), size), rows(66, 96)));
}

TEST_F(fast_matmul, adds_bias_and_residual_as_strict_mode_does) {
  for (const std::uint32_t num_outputs : {50U, 4105U}) { // one slab, and two
    const auto weights = pack(random_tensor(tensor_type::q8_0, num_outputs, 32, random_));
    const auto x = rows(70, 32);
    const auto plain = product(*weights, x), bias = values(num_outputs);
    const auto biased = product(*weights, x, bias), added = product(*weights, x, bias, 7.25F, true);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(biased[i], plain[i] + bias[i % num_outputs]);
      ASSERT_EQ(added[i], 7.25F + biased[i]);
    }
  }
}

TEST_F(fast_matmul, gated_products_and_matrices_of_other_kinds_go_with_it) {
  constexpr std::uint32_t num_rows = 69, width = 33, num_cols = 256;
  const auto x = rows(num_rows, num_cols);
  const float* const there = upload(x);
  for (const auto& [first, second] :
       {std::pair(tensor_type::q4_0, tensor_type::q4_0), std::pair(tensor_type::q5_1, tensor_type::q8_0)}) {
    const stored_tensor tensors[] = {random_tensor(first, width, num_cols, random_),
                                     random_tensor(second, width, num_cols, random_)};
    const auto gate = pack(tensors[0]), up = pack(tensors[1]);
    float* const products = upload(std::vector<float>(2 * num_rows * width, guard));
    float* const out = upload(std::vector<float>(num_rows * width, guard));
    run([&](device::ops& ops) {
      ops.gated_matmul({there,
                        num_cols,
                        num_rows,
                        num_cols,
                        {},
                        false,
                        gate.get(),
                        up.get(),
                        products,
                        out,
                        width,
                        device::activation::silu});
    });
    const auto got = download(products, 2 * num_rows * width);
    std::vector<float> of_gate, of_up;
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      of_gate.insert(of_gate.end(), got.begin() + 2 * r * width, got.begin() + (2 * r + 1) * width);
      of_up.insert(of_up.end(), got.begin() + (2 * r + 1) * width, got.begin() + (2 * r + 2) * width);
    }
    EXPECT_TRUE(same_bits(of_up, product(*up, x)));
    EXPECT_TRUE(same_bits(of_gate, first == tensor_type::q5_1
                                       ? cpu::matmul_reference(tensors[0].view(), {x, num_rows})
                                       : product(*gate, x)));
    const auto gated = download(out, num_rows * width);
    for (std::size_t i = 0; i < gated.size(); ++i)
      EXPECT_NEAR(gated[i], of_gate[i] / (1 + std::exp(-double{of_gate[i]})) * of_up[i],
                  1e-5 * std::fabs(double{of_gate[i]} * of_up[i]) + 1e-30);
  }
}

TEST(blas_slabs, are_bounded_whole_strips) {
  for (const std::uint32_t num_cols : {1U, 64U, 65U, 4096U, 14336U, 131072U, 1U << 21, 1U << 24}) {
    const std::uint32_t outputs = blas_slabs::outputs_for(num_cols);
    EXPECT_GE(outputs, 16U);
    EXPECT_LE(outputs, blas_slabs::most_outputs);
    EXPECT_EQ(outputs % 16, 0U);
    EXPECT_GE(blas_slabs::stride_of(num_cols), num_cols);
    EXPECT_EQ(blas_slabs::stride_of(num_cols) % 64, 0U);
    const std::size_t num_bytes = std::size_t{outputs} * blas_slabs::stride_of(num_cols) * 2;
    EXPECT_TRUE(outputs == 16 || num_bytes <= blas_slabs::weight_bytes) << num_cols;
  }
  EXPECT_EQ(blas_slabs::outputs_for(4096), 4096U);
  EXPECT_EQ(blas_slabs::outputs_for(14336), 1168U);
}

} // namespace
} // namespace paceline::gpu
