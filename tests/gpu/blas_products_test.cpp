// Fast mode on the emulation: which calls it makes, how it handles failures, and that all other products are
// those of strict mode.
#include "gpu/blas_products.hpp"
#include "gpu/cuda_device.hpp"
#include "gpu/emulation/blas_model.hpp"
#include "gpu/emulation/emulated_runtime.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/ops.hpp"
#include "tests/support/stored_tensors.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using test::same_bits;
using test::stored_tensor;

/// A device in one of its modes, and a stream on it.
struct multiplier {
  multiplier(emulation::emulated_runtime& runtime, arithmetic products)
      : gpu(*cuda_device::open(runtime, 0, products)), stream(gpu->make_stream("test", 0)) {}

  /// The products of `x` with each of `weights`, or the error.
  expected<std::vector<float>> product(const std::vector<const stored_tensor*>& weights,
                                       const std::vector<float>& x) {
    const auto num_cols = static_cast<std::uint32_t>(weights[0]->num_cols);
    const auto num_rows = static_cast<std::uint32_t>(x.size() / num_cols);
    std::vector<std::unique_ptr<const device::matrix>> packed;
    std::vector<device::matmul_output> outputs;
    std::size_t num_values = 0;
    for (const stored_tensor* tensor : weights) {
      packed.push_back(*gpu->pack("w", tensor->view()));
      num_values += num_rows * tensor->num_rows;
    }
    const auto there = gpu->buffers().allocate(x.size() * sizeof(float));
    there->upload(0, std::as_bytes(std::span(x)));
    const auto out = gpu->buffers().allocate(num_values * sizeof(float));
    std::vector<float> result(num_values);
    std::size_t at = 0;
    for (const auto& matrix : packed) {
      outputs.push_back(
          {matrix.get(), reinterpret_cast<float*>(out->data()) + at, matrix->num_rows(), nullptr, false});
      at += std::size_t{num_rows} * matrix->num_rows();
    }
    const auto done = stream->submit("product", {}, [&](device::ops& ops) {
      ops.matmul(
          {reinterpret_cast<const float*>(there->data()), num_cols, num_rows, num_cols, false, outputs});
      float* const here = ops.place_for(result);
      ops.gather({here, result.size(), reinterpret_cast<const float*>(out->data()), result.size(), nullptr, 1,
                  static_cast<std::uint32_t>(result.size())});
      ops.deliver();
    });
    done.wait();
    if (const auto failure = done.failure()) return *failure;
    return result;
  }

  std::unique_ptr<cuda_device> gpu;
  std::unique_ptr<device::stream> stream;
};

std::vector<float> normal_values(std::size_t n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

TEST(blas_products, few_rows_have_the_bits_of_strict_mode_in_every_type) {
  emulation::emulated_runtime runtime;
  multiplier strict(runtime, arithmetic::sixteen_bit), fast(runtime, arithmetic::fast);
  std::mt19937 random(3);
  for (const tensor_type type : test::all_tensor_types) {
    const stored_tensor tensor = test::random_tensor(type, 37, 256, random);
    for (const std::size_t num_rows : {1U, 64U}) {
      const auto x = normal_values(num_rows * 256, random);
      ASSERT_TRUE(same_bits(*strict.product({&tensor}, x), *fast.product({&tensor}, x)))
          << device::traits_of(type)->name << ", " << num_rows;
    }
  }
  EXPECT_EQ(runtime.num_calls("cublasLtMatmul"), 0U);
  const stored_tensor tensor = test::random_tensor(tensor_type::q4_0, 37, 256, random);
  const auto x = normal_values(65 * 256, random);
  const auto of_strict = *strict.product({&tensor}, x);
  EXPECT_EQ(runtime.num_calls("cublasLtMatmul"), 0U);
  const auto of_fast = *fast.product({&tensor}, x);
  EXPECT_EQ(runtime.num_calls("cublasLtMatmul"), 1U);
  EXPECT_FALSE(same_bits(of_strict, of_fast)) << "another order of sums, and rounded weights";
}

TEST(blas_products, a_shape_is_asked_for_once) {
  emulation::emulated_runtime runtime;
  multiplier fast(runtime, arithmetic::fast);
  std::mt19937 random(3);
  const stored_tensor one = test::random_tensor(tensor_type::q4_0, 37, 32, random),
                      other = test::random_tensor(tensor_type::q8_0, 48, 32, random),
                      wider = test::random_tensor(tensor_type::f16, 49, 32, random);
  const auto x = normal_values(70 * 32, random);
  ASSERT_TRUE(fast.product({&one, &other, &wider}, x));
  EXPECT_EQ(runtime.num_calls("cublasLtMatmul"), 3U);
  EXPECT_EQ(runtime.num_calls("cublasLtMatmulAlgoGetHeuristic"), 2U)
      << "37 and 48 outputs are three strips each";
  ASSERT_TRUE(fast.product({&one}, x));
  EXPECT_EQ(runtime.num_calls("cublasLtMatmulAlgoGetHeuristic"), 2U);
  for (std::size_t num_rows = 65; num_rows < 150; ++num_rows) // more shapes than are cached
    ASSERT_TRUE(fast.product({&one}, normal_values(num_rows * 32, random)));
  EXPECT_EQ(runtime.num_calls("cublasLtMatmulAlgoGetHeuristic"), 2U + 84U);
}

TEST(blas_products, each_call_that_fails_is_told_by_name_and_place_and_the_next_product_is_right) {
  std::mt19937 random(3);
  const stored_tensor one = test::random_tensor(tensor_type::q4_k, 37, 256, random),
                      other = test::random_tensor(tensor_type::bf16, 20, 256, random);
  const auto x = normal_values(70 * 256, random);
  emulation::emulated_runtime unspoilt;
  const auto expected = *multiplier(unspoilt, arithmetic::fast).product({&one, &other}, x);
  for (const char* call : {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"}) {
    for (const failure_kind how : {failure_kind::other, failure_kind::out_of_memory}) {
      for (std::uint32_t skipped = 0;; ++skipped) {
        emulation::emulated_runtime runtime;
        {
          multiplier fast(runtime, arithmetic::fast);
          runtime.fail(call, skipped, how);
          const auto product = fast.product({&one, &other}, x);
          if (product) {
            EXPECT_EQ(skipped, 2U) << call << ": once a matrix";
            break;
          }
          EXPECT_EQ(product.error().code(),
                    how == failure_kind::other ? errc::internal : errc::resource_exhausted);
          const std::string& said = product.error().message();
          EXPECT_NE(said.find(std::string("cuda:0: ") + call), std::string::npos) << said;
          EXPECT_NE(said.find(", at gpu/"), std::string::npos) << said;
          const auto next = fast.product({&one, &other}, x);
          ASSERT_TRUE(next) << next.error().message();
          EXPECT_TRUE(same_bits(expected, *next));
        }
        EXPECT_EQ(runtime.num_owned(), 0U) << call;
      }
    }
  }
}

TEST(blas_products, a_handle_that_is_refused_leaves_nothing_behind) {
  for (const std::uint32_t skipped : {0U, 1U}) {
    emulation::emulated_runtime runtime;
    runtime.fail("cublasLtCreate", skipped, failure_kind::other);
    if (skipped == 0) {
      const auto opened = cuda_device::open(runtime, 0, arithmetic::fast);
      ASSERT_FALSE(opened);
      EXPECT_NE(opened.error().message().find("cuda:0: cublasLtCreate: "), std::string::npos);
    } else {
      const auto gpu = *cuda_device::open(runtime, 0, arithmetic::fast);
      const auto owned = runtime.num_owned();
      EXPECT_THROW(gpu->make_stream("test", 0), cuda_failure);
      EXPECT_EQ(runtime.num_owned(), owned);
    }
  }
}

TEST(blas_products, a_device_lost_in_a_product_says_so) {
  emulation::emulated_runtime runtime;
  multiplier fast(runtime, arithmetic::fast);
  std::mt19937 random(3);
  const stored_tensor tensor = test::random_tensor(tensor_type::q4_0, 37, 256, random);
  const auto x = normal_values(70 * 256, random);
  ASSERT_TRUE(fast.product({&tensor}, x));
  runtime.fail("cublasLtMatmul", 0, failure_kind::device_lost);
  const auto product = fast.product({&tensor}, x);
  ASSERT_FALSE(product);
  EXPECT_EQ(product.error().code(), errc::device_lost);
}

// ---- the model of the library ----

blas_product sound_product() {
  return {{blas_type::f16, 64, 16, 64}, {blas_type::f16, 64, 5, 64}, {blas_type::f32, 16, 5, 16}, true};
}

TEST(blas_model, takes_sound_shapes_only) {
  using emulation::is_sound;
  EXPECT_TRUE(is_sound(sound_product()));
  const auto spoilt = [](auto change) {
    blas_product p = sound_product();
    change(p);
    return is_sound(p);
  };
  EXPECT_FALSE(spoilt([](auto& p) { p.transpose_a = false; }));
  EXPECT_FALSE(spoilt([](auto& p) { p.a.stride = 56; })) << "columns overlap";
  EXPECT_FALSE(spoilt([](auto& p) { p.b.stride = 66; })) << "no whole words of 16 bytes";
  EXPECT_FALSE(spoilt([](auto& p) { p.d.num_cols = 6; }));
  EXPECT_FALSE(spoilt([](auto& p) { p.b.num_rows = 32; }));
  EXPECT_FALSE(spoilt([](auto& p) { p.d.type = blas_type::f16; }));
  EXPECT_FALSE(spoilt([](auto& p) { p.b.num_cols = p.d.num_cols = 0; }));
  blas_product square{
      {blas_type::f16, 16, 64, 16}, {blas_type::f16, 64, 5, 64}, {blas_type::f32, 16, 5, 16}, false};
  EXPECT_TRUE(is_sound(square));
}

TEST(blas_model, takes_sound_commands_only) {
  alignas(256) static std::byte memory[8192];
  const blas_product p = sound_product();
  const blas_command sound{
      p, emulation::algorithm_of(p), memory, memory + 2048, memory + 4096, memory + 6144, 256};
  EXPECT_TRUE(emulation::is_sound(sound));
  const auto spoilt = [&](auto change) {
    blas_command c = sound;
    change(c);
    return emulation::is_sound(c);
  };
  EXPECT_FALSE(spoilt([](auto& c) { c.a = static_cast<const std::byte*>(c.a) + 16; }));
  EXPECT_FALSE(spoilt([](auto& c) { c.b = nullptr; }));
  EXPECT_FALSE(spoilt([](auto& c) { c.d = static_cast<std::byte*>(c.d) + 4; }));
  EXPECT_FALSE(spoilt([](auto& c) { c.workspace = nullptr; }));
  EXPECT_FALSE(spoilt([](auto& c) { c.by.bits[1] = 6; })) << "another shape's";
}

TEST(blas_model, multiplies) {
  // d (2 x 3) of a (as it is 2 x 8, transposed 8 x 2) and b (8 x 3), in memory wider than that.
  for (const bool transpose_a : {true, false}) {
    alignas(256) static std::uint16_t a[8 * 8], b[3 * 16];
    alignas(256) static float d[3 * 4];
    alignas(256) static std::byte workspace[256];
    const auto value = [](int v) { return device::f16_of_float(static_cast<float>(v)); };
    std::ranges::fill(a, std::uint16_t{0x7e00}), std::ranges::fill(b, std::uint16_t{0x7e00}); // NaN between
    for (int r = 0; r < 2; ++r)
      for (int k = 0; k < 8; ++k) a[transpose_a ? r * 8 + k : k * 8 + r] = value(r * 10 + k);
    for (int c = 0; c < 3; ++c)
      for (int k = 0; k < 8; ++k) b[c * 16 + k] = value(k * k - 20 * c);
    blas_product p{
        {blas_type::f16, 2, 8, 8}, {blas_type::f16, 8, 3, 16}, {blas_type::f32, 2, 3, 4}, transpose_a};
    if (transpose_a) std::swap(p.a.num_rows, p.a.num_cols);
    const blas_command command{p, emulation::algorithm_of(p), a, b, d, workspace, sizeof workspace};
    ASSERT_TRUE(emulation::is_sound(command));
    emulation::multiply(command);
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 3; ++c) {
        int sum = 0;
        for (int k = 0; k < 8; ++k) sum += (r * 10 + k) * (k * k - 20 * c);
        EXPECT_EQ(d[c * 4 + r], static_cast<float>(sum)) << r << ", " << c;
      }
    }
  }
}

} // namespace
} // namespace paceline::gpu
