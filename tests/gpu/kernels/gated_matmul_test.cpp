// A gated product of a GPU's 16-bit arithmetic has the bits of the norm, the two products and the gate as
// separate ops.
#include "gpu/split_columns.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/tensor_compare.hpp"

#include <algorithm>
#include <array>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::random_tensor;
using test::same_bits;

constexpr float guard = 12345.678F;
constexpr float epsilon = 1e-5F;

class gated_matmul : public gpu_test {
 protected:
  gated_matmul() : gpu_test(arithmetic::sixteen_bit) {}

  /// Two matrices and their input.
  struct layer {
    std::unique_ptr<const device::matrix> gate, up;
    std::vector<float> x;
    std::uint32_t num_rows = 0, width = 0, num_cols = 0;
    device::activation act = device::activation::silu;
    float* norm = nullptr;   ///< weights; null: none
    float* normed = nullptr; ///< memory for intermediate values
  };
  layer make_layer(tensor_type of_gate, tensor_type of_up, std::uint32_t num_rows, std::uint32_t width,
                   std::uint32_t num_cols) {
    return {pack(random_tensor(of_gate, width, num_cols, random_)),
            pack(random_tensor(of_up, width, num_cols, random_)),
            values(std::size_t{num_rows} * num_cols, 0.1F),
            num_rows,
            width,
            num_cols,
            random_() % 2 == 0 ? device::activation::silu : device::activation::gelu_tanh};
  }
  /// The same layer after a norm.
  layer normed(layer of) {
    of.norm = upload(values(of.num_cols));
    of.normed = upload(std::vector<float>(std::size_t{of.num_rows} * of.num_cols, guard));
    return of;
  }

  std::vector<float> one_after_the_other(const layer& of) {
    const std::size_t stride = 2 * std::size_t{of.width};
    float* const products = upload(std::vector<float>(of.num_rows * stride, guard));
    float* const out = upload(std::vector<float>(std::size_t{of.num_rows} * of.width, guard));
    const std::array outputs{device::matmul_output{of.gate.get(), products, stride, nullptr, false},
                             device::matmul_output{of.up.get(), products + of.width, stride, nullptr, false}};
    const float* x = upload(of.x);
    run([&](device::ops& ops) {
      if (of.norm != nullptr) {
        ops.rms_norm({x, of.num_cols, of.normed, of.num_cols, of.norm, of.num_rows, 1, of.num_cols, epsilon});
        x = of.normed;
      }
      ops.matmul({x, of.num_cols, of.num_rows, of.num_cols, false, outputs});
      ops.glu({products, products + of.width, stride, out, of.width, of.num_rows, of.width, of.act});
    });
    return download(out, std::size_t{of.num_rows} * of.width);
  }

  /// Rows of the result are three values apart. `products` tells what happened to the products' memory.
  std::vector<float> at_once(const layer& of, std::vector<float>* products = nullptr) {
    const std::size_t stride = of.width + 3, num_products = 2 * std::size_t{of.num_rows} * of.width;
    float* const between = upload(std::vector<float>(num_products, guard));
    float* const out = upload(std::vector<float>(of.num_rows * stride, guard));
    const float* const x = upload(of.x);
    run([&](device::ops& ops) {
      ops.gated_matmul({x,
                        of.num_cols,
                        of.num_rows,
                        of.num_cols,
                        {of.norm, epsilon, of.normed},
                        false,
                        of.gate.get(),
                        of.up.get(),
                        between,
                        out,
                        stride,
                        of.act});
    });
    if (products != nullptr) *products = download(between, num_products);
    const auto all = download(out, of.num_rows * stride);
    std::vector<float> rows;
    for (std::size_t at = 0; at < all.size(); at += stride) {
      rows.insert(rows.end(), all.begin() + at, all.begin() + at + of.width);
      for (std::size_t i = of.width; i < stride; ++i) EXPECT_EQ(all[at + i], guard);
    }
    return rows;
  }
};

TEST_F(gated_matmul, equals_products_and_gate_in_every_type_and_number_of_rows) {
  for (const tensor_type type :
       {tensor_type::q4_0, tensor_type::q4_1, tensor_type::q4_k, tensor_type::q5_0, tensor_type::q5_k,
        tensor_type::q6_k, tensor_type::q8_0, tensor_type::f16, tensor_type::bf16, tensor_type::f8_e4m3}) {
    for (const std::uint32_t num_rows : {1U, 9U}) {
      const layer of = make_layer(type, type, num_rows, 37, 256);
      ASSERT_EQ(split_columns(37, 256).num_splits, 1U);
      std::vector<float> products;
      ASSERT_TRUE(same_bits(one_after_the_other(of), at_once(of, &products)))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
      EXPECT_TRUE(std::ranges::all_of(products, [](float v) { return v == guard; }))
          << "products went to memory";
    }
  }
}

TEST_F(gated_matmul, equals_them_over_several_splits_blocks_and_slices_of_rows) {
  for (const tensor_type type : {tensor_type::q4_k, tensor_type::bf16}) {
    for (const std::uint32_t num_rows : {3U, 70U}) {
      const layer of = make_layer(type, type, num_rows, 150, 768);
      ASSERT_EQ(split_columns(150, 768).num_splits, 3U);
      ASSERT_TRUE(same_bits(one_after_the_other(of), at_once(of)))
          << device::traits_of(type)->name << ", " << num_rows << " rows";
    }
  }
}

TEST_F(gated_matmul, equals_them_behind_a_norm_whose_rows_stay_out_of_memory) {
  for (const auto& [type, num_cols] :
       {std::pair(tensor_type::q4_k, 768U), std::pair(tensor_type::q4_1, 96U),
        std::pair(tensor_type::bf16, 4200U), std::pair(tensor_type::bf16, 8448U)}) {
    for (const std::uint32_t num_rows : {1U, 11U, 70U}) {
      if (num_rows > 1 && num_cols > 1000) continue; // takes many seconds on the emulation
      const layer of = normed(make_layer(type, type, num_rows, 37, num_cols));
      const auto actual = at_once(of);
      for (const float value : download(of.normed, std::size_t{num_rows} * num_cols)) ASSERT_EQ(value, guard);
      ASSERT_TRUE(same_bits(one_after_the_other(of), actual))
          << device::traits_of(type)->name << ", " << num_rows << " rows of " << num_cols;
    }
  }
  const layer plain = normed(make_layer(tensor_type::f32, tensor_type::f32, 5, 33, 256));
  EXPECT_TRUE(same_bits(one_after_the_other(plain), at_once(plain)));
}

TEST_F(gated_matmul, is_the_products_and_the_gate_where_matrices_differ_or_are_not_streamed) {
  for (const auto& [gate, up] :
       {std::pair(tensor_type::q4_0, tensor_type::q8_0), std::pair(tensor_type::f32, tensor_type::f32),
        std::pair(tensor_type::q5_1, tensor_type::q4_0)}) {
    const layer of = make_layer(gate, up, 5, 33, 256);
    EXPECT_TRUE(same_bits(one_after_the_other(of), at_once(of))) << device::traits_of(gate)->name;
  }
}

TEST_F(gated_matmul, may_write_over_the_products_memory) {
  for (const tensor_type type : {tensor_type::q8_0, tensor_type::f32}) {
    const layer of = make_layer(type, type, 4, 33, 256);
    const std::size_t stride = 2 * std::size_t{of.width};
    float* const products = upload(std::vector<float>(of.num_rows * stride, guard));
    const float* const x = upload(of.x);
    run([&](device::ops& ops) {
      ops.gated_matmul({x,
                        of.num_cols,
                        of.num_rows,
                        of.num_cols,
                        {},
                        false,
                        of.gate.get(),
                        of.up.get(),
                        products,
                        products,
                        stride,
                        of.act});
    });
    const auto expected = one_after_the_other(of);
    const auto actual = download(products, of.num_rows * stride);
    for (std::size_t r = 0; r < of.num_rows; ++r)
      EXPECT_TRUE(same_bits(std::span(expected).subspan(r * of.width, of.width),
                            std::span(actual).subspan(r * stride, of.width)));
  }
}

} // namespace
} // namespace paceline::gpu
