// Row ops of a GPU have the bits of the reference, and write only their outputs.
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/row_kernels.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_add_normed.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/row_cases.hpp"
#include "tests/support/tensor_compare.hpp"

#include <chrono>
#include <cmath>
#include <limits>

namespace paceline::gpu::row_kernels_test {
namespace {

using test::same_bits;

constexpr float guard = 12345.678F;

class gpu_row_kernels : public gpu_test {
 protected:
  const cpu::row_kernels& reference() const { return cpu::reference_row_kernels(); }
};

constexpr device::activation every_activation[] = {device::activation::silu,
                                                   device::activation::gelu_tanh,
                                                   device::activation::gelu_erf,
                                                   device::activation::sigmoid,
                                                   device::activation::relu,
                                                   device::activation::tanh,
                                                   device::activation::sigmoid_of_minus};

TEST_F(gpu_row_kernels, rms_norm_equals_the_reference) {
  for (std::uint32_t width : {1U, 7U, 16U, 33U, 64U, 100U, 576U, 2051U}) {
    for (std::uint32_t parts : {1U, 3U}) {
      const std::size_t stride = std::size_t{width} * parts + 5;
      const auto x = values(stride * 3), weight = values(width);
      std::vector<float> expected(stride * 3, guard);
      device::rms_norm_args args{x.data(), stride, expected.data(), stride, weight.data(),
                                 3,        parts,  width,           1e-6F};
      reference().rms_norm(args, {0, 3});
      float* const x_there = upload(x);
      args.x = x_there;
      args.y = upload(std::vector<float>(stride * 3, guard));
      args.weight = upload(weight);
      run([&](device::ops& ops) { ops.rms_norm(args); });
      EXPECT_TRUE(same_bits(expected, download(args.y, stride * 3)))
          << "width " << width << " parts " << parts;
      args.y = x_there;
      run([&](device::ops& ops) { ops.rms_norm(args); });
      const auto in_place = download(x_there, stride * 3);
      for (std::size_t r = 0; r < 3; ++r)
        EXPECT_TRUE(same_bits(std::span(expected).subspan(r * stride, width * parts),
                              std::span(in_place).subspan(r * stride, width * parts)));
    }
  }
}

TEST_F(gpu_row_kernels, add_normed_equals_norm_and_addition) {
  for (std::uint32_t width : {1U, 33U, 576U, 2051U}) {
    const std::size_t stride = width + 5, size = 3 * stride;
    const auto x = values(size), hidden = values(size), weight = values(width);
    auto normed = x, sum = hidden;
    reference().rms_norm({x.data(), stride, normed.data(), stride, weight.data(), 3, 1, width, 1e-6F},
                         {0, 3});
    for (std::size_t i = 0; i < size; ++i)
      if (i % stride < width) sum[i] = sum[i] + normed[i];
    const device::add_normed_args args{upload(x),      stride, upload(hidden), stride,
                                       upload(weight), 3,      width,          1e-6F};
    run([&](device::ops& ops) { ops.add_normed(args); });
    EXPECT_TRUE(same_bits(sum, download(args.hidden, size))) << "width " << width;
  }
}

TEST_F(gpu_row_kernels, rope_equals_the_reference) {
  for (auto layout : {device::rope_layout::interleaved, device::rope_layout::half_split}) {
    for (std::uint32_t pairs : {1U, 5U, 32U, 45U}) {
      for (std::uint32_t unrotated : {0U, 6U}) {
        const std::uint32_t head_dim = 2 * pairs + unrotated;
        const std::size_t stride = std::size_t{head_dim} * 3 + 3;
        const auto table = values(std::size_t{2} * 2 * pairs);
        auto expected = values(2 * stride);
        float* const x = upload(expected);
        device::rope_args args{expected.data(), stride, table.data(), 2, 3, head_dim, pairs, layout};
        reference().rope(args, {0, 2});
        args.x = x;
        args.table = upload(table);
        run([&](device::ops& ops) { ops.rope(args); });
        EXPECT_TRUE(same_bits(expected, download(x, 2 * stride))) << "pairs " << pairs << " of " << head_dim;
      }
    }
  }
}

TEST_F(gpu_row_kernels, rope_table_has_the_hosts_angles) {
  const std::vector<double> frequencies{1.0, 0.31622776601683794, 1e-4};
  std::vector<device::batch_entry> rows(4);
  rows[1].position = token_position{17}, rows[2].position = token_position{123456};
  rows[3].position = token_position{20}, rows[3].positions_back = 6;
  std::vector<float> expected;
  for (const std::uint32_t position : {0U, 17U, 123456U, 14U}) {
    for (const double f : frequencies) expected.push_back(static_cast<float>(1.25 * std::cos(position * f)));
    for (const double f : frequencies) expected.push_back(static_cast<float>(1.25 * std::sin(position * f)));
  }
  float* const table = upload(std::vector<float>(expected.size(), guard));
  run([&](device::ops& ops) { ops.rope_table({rows, frequencies, 1.25, table}); });
  EXPECT_TRUE(same_bits(expected, download(table, expected.size())));
  run([&](device::ops& ops) { ops.rope_table({rows, {&frequencies[2], 1}, 1.25, table, {0.5, 10}}); });
  const auto grown = download(table, 8);
  EXPECT_EQ(grown[0], 1.25F);
  EXPECT_EQ(grown[2], static_cast<float>(1.25 * (1 + 0.5 * std::log(2.0)) * std::cos(17e-4)));
  EXPECT_EQ(grown[6], static_cast<float>(1.25 * (1 + 0.5 * std::log(2.0)) * std::cos(14e-4)));
}

TEST_F(gpu_row_kernels, glu_equals_the_reference_for_every_size_of_gate) {
  for (auto act : every_activation) {
    for (std::uint32_t width : {1U, 50U, 1536U}) {
      for (float deviation : {0.01F, 1.0F, 30.0F, 1e20F}) {
        const std::size_t stride = 2 * std::size_t{width} + 1;
        const auto x = values(2 * stride, deviation);
        std::vector<float> expected(2 * (width + 2), guard);
        device::glu_args args{x.data(), x.data() + width, stride, expected.data(), width + 2, 2, width, act};
        reference().glu(args, {0, 2});
        args.gate = upload(x);
        args.up = args.gate + width;
        args.out = upload(std::vector<float>(2 * (width + 2), guard));
        run([&](device::ops& ops) { ops.glu(args); });
        EXPECT_TRUE(same_bits(expected, download(args.out, expected.size()))) << width << ", " << deviation;
        run([&](device::ops& ops) { // the activation alone
          ops.glu({args.gate, nullptr, stride, args.out, width + 2, 2, width, act});
        });
        reference().glu({x.data(), nullptr, stride, expected.data(), width + 2, 2, width, act}, {0, 2});
        EXPECT_TRUE(same_bits(expected, download(args.out, expected.size()))) << width << ", " << deviation;
      }
    }
  }
}

TEST_F(gpu_row_kernels, glu_of_special_gates_equals_the_reference) {
  const auto gate = test::special_gates();
  const std::vector<float> up(gate.size(), 1.0F);
  const auto width = static_cast<std::uint32_t>(gate.size());
  for (auto act : every_activation) {
    std::vector<float> expected(width);
    device::glu_args args{gate.data(), up.data(), width, expected.data(), width, 1, width, act};
    reference().glu(args, {0, 1});
    args.gate = upload(gate), args.up = upload(up), args.out = upload(expected);
    run([&](device::ops& ops) { ops.glu(args); });
    EXPECT_TRUE(same_bits(expected, download(args.out, width)));
  }
}

TEST_F(gpu_row_kernels, add_and_gather_touch_their_rows_only) {
  const std::uint32_t width = 150, stride = 157;
  const auto x = values(4 * stride), y = values(3 * stride);
  const std::vector<std::uint32_t> rows{3, 0, 3};
  float *const x_there = upload(x), *const sum = upload(y), *const picked = upload(y),
               *const first = upload(y), *const gated = upload(y), *const scaled = upload(y);
  run([&](device::ops& ops) {
    ops.add({sum, stride, x_there, stride, 3, width});
    ops.add({gated, stride, x_there, stride, 3, width, x_there + width, stride});
    ops.add({scaled, stride, x_there, stride, 3, width, nullptr, 0, 0.3F});
    ops.gather({picked, stride, x_there, stride, rows.data(), 3, width});
    ops.gather({first, stride, x_there, stride, nullptr, 3, width});
  });
  auto expected_sum = y, expected_scaled = y, expected_picked = y, expected_first = y, expected_gated = y;
  cpu::thread_team team({1, {}, std::chrono::microseconds(1)});
  cpu::cpu_ops here(team, cpu::kernel_level::scalar);
  here.add({expected_gated.data(), stride, x.data(), stride, 3, width, x.data() + width, stride});
  for (std::uint32_t r = 0; r < 3; ++r) // the CPU's sum is that of its definition
    for (std::uint32_t i = 0; i < width; ++i)
      EXPECT_NEAR(expected_gated[r * stride + i],
                  y[r * stride + i] + x[r * stride + i] / (1 + std::exp(-double{x[r * stride + width]})),
                  1e-4);
  for (std::uint32_t r = 0; r < 3; ++r) {
    for (std::uint32_t i = 0; i < width; ++i) {
      expected_sum[r * stride + i] += x[r * stride + i];
      expected_scaled[r * stride + i] += x[r * stride + i] * 0.3F;
      expected_picked[r * stride + i] = x[rows[r] * stride + i];
      expected_first[r * stride + i] = x[r * stride + i];
    }
  }
  EXPECT_TRUE(same_bits(expected_sum, download(sum, y.size())));
  EXPECT_TRUE(same_bits(expected_gated, download(gated, y.size())));
  EXPECT_TRUE(same_bits(expected_scaled, download(scaled, y.size())));
  EXPECT_TRUE(same_bits(expected_picked, download(picked, y.size())));
  EXPECT_TRUE(same_bits(expected_first, download(first, y.size())));
}

TEST_F(gpu_row_kernels, scatter_writes_the_named_rows_only) {
  const std::uint32_t width = 150, y_stride = 157;
  const std::vector<std::uint32_t> rows{4, 0, 2};
  for (const std::uint32_t x_stride : {151U, 0U}) { // 0: one row to all places
    const auto x = values(3 * 151), y = values(5 * y_stride);
    float *const x_there = upload(x), *const y_there = upload(y);
    run([&](device::ops& ops) {
      ops.scatter({y_there, y_stride, rows.data(), x_there, x_stride, 3, width});
    });
    auto expected = y;
    for (std::uint32_t r = 0; r < 3; ++r)
      for (std::uint32_t i = 0; i < width; ++i) expected[rows[r] * y_stride + i] = x[r * x_stride + i];
    EXPECT_TRUE(same_bits(expected, download(y_there, y.size()))) << x_stride;
  }
}

} // namespace
} // namespace paceline::gpu::row_kernels_test
