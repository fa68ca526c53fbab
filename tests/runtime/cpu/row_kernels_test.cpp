// Every kernel level against the reference: equal to the bit, and nothing written outside the outputs.
#include "tests/runtime/cpu/row_kernel_cases.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/row_runner.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace paceline::cpu {
namespace {

constexpr device::activation every_activation[] = {device::activation::silu,
                                                   device::activation::gelu_tanh,
                                                   device::activation::gelu_erf,
                                                   device::activation::sigmoid,
                                                   device::activation::relu,
                                                   device::activation::tanh,
                                                   device::activation::sigmoid_of_minus};

TEST_P(row_kernels_test, rms_norm_equals_the_reference) {
  for (std::uint32_t width : {1U, 7U, 16U, 33U, 64U, 100U, 576U, 2051U}) {
    for (std::uint32_t parts : {1U, 3U}) {
      const std::size_t stride = std::size_t{width} * parts + 5;
      const std::uint32_t num_rows = 3;
      const auto x = values(stride * num_rows);
      const auto weight = values(width);
      std::vector<float> expected(stride * num_rows, guard);
      std::vector<float> y = expected;
      device::rms_norm_args args{x.data(), stride, expected.data(), stride, weight.data(),
                                 num_rows, parts,  width,           1e-6F};
      reference().rms_norm(args, {0, num_rows});
      args.y = y.data();
      fast().rms_norm(args, {2, 3});
      fast().rms_norm(args, {0, 2});
      EXPECT_TRUE(same_bits(expected, y)) << "width " << width << " parts " << parts;
      auto in_place = x;
      args.x = args.y = in_place.data();
      fast().rms_norm(args, {0, num_rows});
      for (std::uint32_t r = 0; r < num_rows; ++r)
        EXPECT_EQ(std::memcmp(&in_place[r * stride], &expected[r * stride], std::size_t{width} * parts * 4),
                  0);
    }
  }
}

TEST_P(row_kernels_test, rope_equals_the_reference) {
  for (auto layout : {device::rope_layout::interleaved, device::rope_layout::half_split}) {
    for (std::uint32_t pairs : {1U, 5U, 8U, 16U, 32U, 45U}) {
      for (std::uint32_t unrotated : {0U, 6U}) {
        const std::uint32_t head_dim = 2 * pairs + unrotated;
        const std::uint32_t num_heads = 3;
        const std::size_t stride = std::size_t{head_dim} * num_heads + 3;
        const auto table = values(std::size_t{2} * 2 * pairs);
        auto expected = values(2 * stride);
        auto x = expected;
        device::rope_args args{expected.data(), stride, table.data(), 2, num_heads, head_dim, pairs, layout};
        reference().rope(args, {0, 2});
        args.x = x.data();
        fast().rope(args, {1, 2});
        fast().rope(args, {0, 1});
        EXPECT_TRUE(same_bits(expected, x)) << "pairs " << pairs << " unrotated " << unrotated;
      }
    }
  }
}

TEST_P(row_kernels_test, glu_equals_the_reference_for_every_size_of_gate) {
  for (auto act : every_activation) {
    for (std::uint32_t width : {1U, 15U, 16U, 50U, 1536U}) {
      for (float deviation : {0.01F, 1.0F, 30.0F, 1e20F}) {
        const std::size_t stride = 2 * std::size_t{width} + 1;
        const auto x = values(2 * stride, deviation);
        std::vector<float> expected(2 * (width + 2), guard);
        auto out = expected;
        device::glu_args args{x.data(), x.data() + width, stride, expected.data(), width + 2, 2, width, act};
        reference().glu(args, {0, 2});
        args.out = out.data();
        fast().glu(args, {0, 1});
        fast().glu(args, {1, 2});
        EXPECT_TRUE(same_bits(expected, out)) << "width " << width << " deviation " << deviation;
        args.up = nullptr; // the activation alone
        fast().glu(args, {0, 2});
        args.out = expected.data();
        reference().glu(args, {0, 2});
        EXPECT_TRUE(same_bits(expected, out)) << "width " << width << " deviation " << deviation;
      }
    }
  }
}

TEST_P(row_kernels_test, activations_are_near_their_definitions) {
  for (int step = -800; step <= 800; ++step) {
    const float x = static_cast<float>(step) / 100;
    const double wide = x;
    const std::pair<device::activation, double> cases[] = {
        {device::activation::gelu_erf, 0.5 * wide * (1 + std::erf(wide / std::sqrt(2.0)))},
        {device::activation::sigmoid, 1 / (1 + std::exp(-wide))},
        {device::activation::relu, std::max(wide, 0.0)},
        {device::activation::tanh, std::tanh(wide)},
        {device::activation::sigmoid_of_minus, 1 / (1 + std::exp(wide))}};
    for (const auto& [act, expected] : cases) {
      float out = 0;
      fast().glu({&x, nullptr, 1, &out, 1, 1, 1, act}, {0, 1});
      EXPECT_NEAR(out, expected, 1e-6) << x;
    }
  }
}

TEST_P(row_kernels_test, glu_of_special_gates_equals_the_reference) {
  const auto gate = test::special_gates();
  const std::vector<float> up(gate.size(), 1.0F);
  const auto width = static_cast<std::uint32_t>(gate.size());
  for (auto act : every_activation) {
    std::vector<float> expected(width), out(width);
    device::glu_args args{gate.data(), up.data(), width, expected.data(), width, 1, width, act};
    reference().glu(args, {0, 1});
    args.out = out.data();
    fast().glu(args, {0, 1});
    EXPECT_TRUE(same_bits(expected, out));
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float out = 0;
  fast().glu({&nan, up.data(), 1, &out, 1, 1, 1, device::activation::silu}, {0, 1});
  EXPECT_TRUE(std::isnan(out));
}

TEST_P(row_kernels_test, kv_write_equals_the_reference) {
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 40, random_());
    paged.add_sequence(3 * c.block_size + 2);
    paged.add_sequence(2);
    const auto written = paged.chain_rows(0, 0, 3 * c.block_size + 2);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim * 2 + 3;
    auto x = values(written.size() * stride);
    const std::size_t of_values = stride / 2;
    x[1] = 70000.0F; // beyond half precision
    x[2] = 1e-7F;    // subnormal there
    x[stride] = std::numeric_limits<float>::infinity();
    x[stride + of_values + 2] = -std::numeric_limits<float>::quiet_NaN();
    x[2 * stride + 1] = std::numeric_limits<float>::max(); // bfloat16 rounds it to infinity
    x[2 * stride + 2] = 1e-42F;                            // subnormal everywhere
    x[2 * stride + of_values] = -std::numeric_limits<float>::max();
    for (std::uint32_t d = 0; d < c.head_dim; ++d) {
      x[3 * stride + d] = 0x1.fp-101F;                            // below the range of codes
      x[3 * stride + of_values + d] = d == 1 ? -0x1p-100F : 0.0F; // the smallest in the range
    }
    poisoned_pool expected(c, 40), pool(c, 40);
    const auto batch = paged.batch(written);
    device::kv_write_args args{&batch, expected.layer, x.data(), x.data() + of_values, stride};
    const auto num_rows = static_cast<std::uint32_t>(written.size());
    reference().kv_write(args, {0, num_rows});
    args.layer = pool.layer;
    fast().kv_write(args, {1, num_rows});
    fast().kv_write(args, {0, 1});
    expect_same_cells(expected, pool, c);
  }
}

TEST(rope_table, has_the_angles_of_the_rotary_positions) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  const std::vector<double> frequencies{1.0, 0.25};
  std::vector<device::batch_entry> rows(2);
  rows[0].position = token_position{17};
  rows[1].position = token_position{20}, rows[1].positions_back = 6;
  std::vector<float> expected, table(8, guard);
  for (const double position : {17.0, 14.0}) {
    for (const double f : frequencies) expected.push_back(static_cast<float>(1.25 * std::cos(position * f)));
    for (const double f : frequencies) expected.push_back(static_cast<float>(1.25 * std::sin(position * f)));
  }
  runner.rope_table({rows, frequencies, 1.25, table.data()});
  EXPECT_TRUE(same_bits(expected, table));
}

TEST(rope_table, for_queries_grows_in_steps_with_the_rotary_position) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  const std::vector<double> frequencies{0.0};
  std::vector<device::batch_entry> rows(5);
  const std::uint32_t positions[] = {0, 9, 10, 29, 30};
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r].position = token_position{positions[r]};
  rows[4].positions_back = 10;
  std::vector<float> table(10, guard);
  runner.rope_table({rows, frequencies, 2, table.data(), {0.5, 10}});
  const double factors[] = {1, 1, 1 + 0.5 * std::log(2.0), 1 + 0.5 * std::log(3.0), 1 + 0.5 * std::log(3.0)};
  for (std::size_t r = 0; r < rows.size(); ++r)
    EXPECT_EQ(table[2 * r], static_cast<float>(2 * factors[r])) << "position " << positions[r];
}

TEST(kv_copy, moves_cells_of_every_type_with_their_scales) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 8, 1);
    paged.add_sequence(2 * c.block_size);
    const auto rows = paged.every_slot(0);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim;
    std::vector<float> x(rows.size() * stride);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009 + 1);
    poisoned_pool one_by_one(c, 8), at_once(c, 8);
    const auto batch = paged.batch(rows);
    for (const auto* pool : {&one_by_one, &at_once})
      reference_row_kernels().kv_write({&batch, pool->layer, x.data(), x.data(), stride},
                                       {0, static_cast<std::uint32_t>(rows.size())});
    const std::uint32_t num_cells = c.block_size - 1; // the last cells of a block to the first of another
    for (std::uint32_t i = 0; i < num_cells; ++i)
      paged.copy_cell(one_by_one.layer, 0, 1 + i, c.block_size + i);
    device::kv_copy copy = paged.copy_of(0, 1, c.block_size);
    copy.num_cells = num_cells;
    runner.kv_copy({at_once.layer, {&copy, 1}});
    expect_same_cells(one_by_one, at_once, c);
  }
}

TEST(kv_copy, brings_cells_of_every_type_from_another_pool) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  for (const attention_case& c : attention_cases) {
    test::paged_sequences paged(c.block_size, 8, 1);
    paged.add_sequence(2 * c.block_size);
    const auto rows = paged.every_slot(0);
    const std::size_t stride = std::size_t{c.num_kv_heads} * c.head_dim;
    std::vector<float> x(rows.size() * stride);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1009 + 1);
    poisoned_pool whole(c, 8), copied(c, 8);
    const auto batch = paged.batch(rows);
    reference_row_kernels().kv_write({&batch, whole.layer, x.data(), x.data(), stride},
                                     {0, static_cast<std::uint32_t>(rows.size())});
    std::vector<device::kv_copy> copies;
    for (const std::uint32_t first : {0U, c.block_size}) {
      copies.push_back(paged.copy_of(0, first, first));
      copies.back().num_cells = c.block_size;
    }
    runner.kv_copy({copied.layer, copies, &whole.layer});
    expect_same_cells(whole, copied, c);
  }
}

TEST(kv_copy, refuses_cells_of_another_shape_and_those_outside_either_pool) {
  thread_team team(thread_team::options{});
  row_runner runner(team, kernel_level::scalar);
  const attention_case c = attention_cases[0];
  poisoned_pool small(c, 2), large(c, 4);
  const device::kv_copy from_third{block_id{2}, 0, block_id{1}, 0, 1};
  const device::kv_copy to_third{block_id{1}, 0, block_id{2}, 0, 1};
  runner.kv_copy({small.layer, {&from_third, 1}, &large.layer});
  runner.kv_copy({large.layer, {&to_third, 1}, &small.layer});
  EXPECT_THROW(runner.kv_copy({small.layer, {&to_third, 1}, &large.layer}), check_failure);
  EXPECT_THROW(runner.kv_copy({large.layer, {&from_third, 1}, &small.layer}), check_failure);
  device::kv_layer wider = large.layer;
  ++wider.num_heads;
  EXPECT_THROW(runner.kv_copy({small.layer, {&to_third, 0}, &wider}), check_failure);
}

TEST_P(row_kernels_test, gated_delta) {
  using device::state_step;
  for (const device::delta_heads& heads : {device::delta_heads{2, 4, 16, 16, false}, {1, 3, 36, 23, true}}) {
    const std::size_t out_at = 2 * heads.keys_size() + heads.values_size(),
                      stride = out_at + heads.values_size();
    const auto x = values(3 * stride, 0.02F), slots = values(2 * heads.state_values(), 0.02F);
    const std::vector<delta_factors> factors(std::size_t{3} * heads.num_values, {0.75F, 0.4F});
    const state_step steps[] = {
        {0, 1, state_step::nowhere, 0}, {2, state_step::previous, 0, 1}, {1, 0, 0, 0}};
    const auto run = [&](const row_kernels& kernels) {
      std::vector<float> rows = x, states = slots,
                         running(std::size_t{heads.key_dim} * device::delta_columns);
      const float* const at = rows.data();
      const device::gated_delta_args args{{},
                                          heads,
                                          at,
                                          nullptr,
                                          nullptr,
                                          rows.data() + out_at,
                                          stride,
                                          nullptr,
                                          nullptr,
                                          0.3F,
                                          {states.data(), heads.state_values(), 2}};
      for (std::uint32_t h = 0; h < heads.num_values; ++h)
        for (std::uint32_t g = 0; g < heads.num_groups(); ++g)
          kernels.gated_delta(args, {steps, h, g, factors.data(), running.data()});
      rows.insert(rows.end(), states.begin(), states.end());
      return rows;
    };
    const auto found = run(fast()), expected = run(reference());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << heads.key_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(levels, row_kernels_test, testing::ValuesIn(kernel_levels), name_of);

} // namespace
} // namespace paceline::cpu
