// A short convolution has the bits of its definition, whatever passes its rows are divided into and wherever
// their states are: chains, trees, and rows of several texts.
#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/host_buffer.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <vector>

namespace paceline::cpu {
namespace {

using test::same_bits;

/// Rows, each after its parent (-1: the first row of its text), and their results according to the
/// definition.
struct texts {
  std::uint32_t width = 0, num_taps = 0;
  std::vector<std::int32_t> parents;
  std::vector<float> x;             ///< [row][3 * width]
  std::vector<float> weights, bias; ///< [num_taps][width], [width] or empty
  bool gated = true;                ///< the columns of x are [B | C | u]; else only u is used

  std::vector<float> expected(std::size_t row) const {
    std::vector<float> out(width);
    for (std::uint32_t c = 0; c < width; ++c) {
      std::vector<float> z; // newest first
      for (auto r = static_cast<std::int32_t>(row); r >= 0 && z.size() < num_taps;
           r = parents[static_cast<std::size_t>(r)]) {
        const float* const at = &x[static_cast<std::size_t>(r) * 3 * width];
        z.push_back((gated ? at[c] : 1.0F) * at[2 * width + c]);
      }
      float y = 0;
      for (std::uint32_t tap = 0; tap < num_taps; ++tap) {
        const std::size_t back = num_taps - 1 - tap;
        if (back < z.size()) y += weights[tap * width + c] * z[back];
      }
      if (!bias.empty()) y += bias[c];
      out[c] = (gated ? x[row * 3 * width + width + c] : 1.0F) * y;
    }
    return out;
  }
};

texts make_texts(std::uint32_t width, std::uint32_t num_taps, bool bias, std::vector<std::int32_t> parents,
                 std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::size_t size) {
    std::vector<float> values(size);
    for (float& v : values) v = normal(random);
    return values;
  };
  texts made{width, num_taps, std::move(parents), {}, {}, {}, true};
  made.x = fill(made.parents.size() * 3 * width);
  made.weights = fill(std::size_t{num_taps} * width);
  if (bias) made.bias = fill(width);
  return made;
}

class short_conv : public testing::TestWithParam<std::uint32_t> {
 protected:
  short_conv() : team_({GetParam(), {}, std::chrono::microseconds(100)}), ops_(team_, kernel_level::scalar) {}

  /// Runs rows in passes that end before the given ones; every row leaves its state in the slot of its
  /// number. Slots are `gap` values apart. `gap` may be a multiple of 16, as in a pool, where slots are
  /// written past the caches.
  std::vector<float> run(const texts& of, const std::vector<std::size_t>& ends, std::size_t gap) {
    const std::size_t width = of.width, taps = of.num_taps, stride = (taps - 1) * width + gap;
    const auto memory = make_host_buffer(of.parents.size() * stride * sizeof(float));
    const std::span states(reinterpret_cast<float*>(memory->data()), of.parents.size() * stride);
    std::ranges::fill(states, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> out;
    for (std::size_t begin = 0; const std::size_t end : ends) {
      std::vector<device::row_state> rows;
      for (std::size_t r = begin; r < end; ++r) {
        const std::int32_t parent = of.parents[r];
        device::row_state row;
        if (parent >= static_cast<std::int32_t>(begin))
          row.parent = parent - static_cast<std::int32_t>(begin);
        else if (parent >= 0)
          row.read = state_slot{static_cast<std::uint32_t>(parent)};
        row.write = state_slot{static_cast<std::uint32_t>(r)};
        rows.push_back(row);
      }
      std::vector<float> x(of.x.begin() + static_cast<std::ptrdiff_t>(begin * 3 * width),
                           of.x.begin() + static_cast<std::ptrdiff_t>(end * 3 * width));
      device::short_conv_args args;
      args.rows = rows;
      args.u = x.data() + 2 * width;
      args.in_gate = of.gated ? x.data() : nullptr;
      args.out_gate = of.gated ? x.data() + width : nullptr;
      args.out = x.data();
      args.stride = 3 * width;
      args.width = of.width;
      args.num_taps = of.num_taps;
      args.weights = of.weights.data();
      args.bias = of.bias.empty() ? nullptr : of.bias.data();
      args.states = {states.data(), stride, static_cast<std::uint32_t>(of.parents.size())};
      ops_.short_conv(args);
      for (std::size_t r = 0; r < rows.size(); ++r)
        out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(r * 3 * width),
                   x.begin() + static_cast<std::ptrdiff_t>(r * 3 * width + width));
      begin = end;
    }
    for (std::size_t r = 0; r < of.parents.size(); ++r) // the gap between two slots belongs to nothing
      for (std::size_t i = (taps - 1) * width; i < stride; ++i)
        EXPECT_TRUE(std::isnan(states[r * stride + i])) << "slot " << r;
    return out;
  }

  void expect_definition(const texts& of, const std::vector<std::size_t>& ends) {
    for (const std::size_t gap : {5U, 16U}) {
      const auto found = run(of, ends, gap);
      for (std::size_t r = 0; r < of.parents.size(); ++r)
        EXPECT_TRUE(same_bits(std::span(found).subspan(r * of.width, of.width), of.expected(r)))
            << "row " << r << ", " << of.num_taps << " taps, width " << of.width << ", gap " << gap;
    }
  }

  thread_team team_;
  cpu_ops ops_;
};

std::vector<std::int32_t> chain(std::size_t length) {
  std::vector<std::int32_t> parents;
  for (std::size_t r = 0; r < length; ++r) parents.push_back(static_cast<std::int32_t>(r) - 1);
  return parents;
}

TEST_P(short_conv, a_text_gives_the_same_in_passes_of_any_size) {
  for (const std::uint32_t taps : {2U, 3U, 4U, 7U})
    for (const std::uint32_t width : {8U, 256U, 300U, 2048U}) {
      const auto of = make_texts(width, taps, taps % 2 == 0, chain(23), taps * 100 + width);
      expect_definition(of, {23});
      expect_definition(of,
                        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
      expect_definition(of, {2, 3, 11, 12, 23});
    }
}

TEST_P(short_conv, nodes_of_a_tree_see_their_own_path) {
  // A text of five rows, and below its last one a tree of chains and siblings.
  std::vector<std::int32_t> parents = chain(5);
  for (const std::int32_t node : {4, 4, 5, 5, 6, 8, 8, 10, 7}) parents.push_back(node);
  const auto of = make_texts(40, 4, true, parents, 7);
  expect_definition(of, {14});
  expect_definition(of, {5, 14});
  expect_definition(of, {3, 6, 9, 14});
}

TEST_P(short_conv, works_without_gates) {
  auto of = make_texts(300, 4, false, chain(9), 5);
  of.gated = false;
  expect_definition(of, {9});
  expect_definition(of, {1, 3, 9});
}

TEST_P(short_conv, texts_of_one_pass_do_not_mix) {
  const auto of = make_texts(24, 3, false, {-1, -1, 0, 1, 2, -1, 3, 4, 5}, 9);
  expect_definition(of, {9});
  expect_definition(of, {4, 9});
}

TEST_P(short_conv, rows_without_a_slot_leave_nothing) {
  const auto of = make_texts(16, 3, false, chain(3), 1);
  std::vector<float> states(2 * 32, 7.0F), x = of.x;
  std::array<device::row_state, 3> rows{{{-1, {}, {}}, {0, {}, {}}, {1, {}, state_slot{1}}}};
  float* const b = x.data();
  device::short_conv_args args{
      rows, b + 32, b, b + 16, b, 48, 16, 3, of.weights.data(), nullptr, {states.data(), 32, 2}};
  ops_.short_conv(args);
  EXPECT_EQ(std::count(states.begin(), states.begin() + 32, 7.0F), 32);
  EXPECT_EQ(std::count(states.begin() + 32, states.end(), 7.0F), 0);
}

INSTANTIATE_TEST_SUITE_P(threads, short_conv, testing::Values(1U, 3U));

TEST(check_states, refuses_rows_that_contradict_each_other) {
  using rows = std::vector<device::row_state>;
  const state_slot a{0}, b{1};
  const auto check = [](const rows& of, std::size_t num_rows) { device::check_states(of, num_rows, 2); };
  EXPECT_NO_THROW(check(rows{{-1, a, b}}, 1));
  EXPECT_NO_THROW(check(rows{{-1, a, {}}, {-1, a, b}}, 2)) << "several rows may continue one state";
  EXPECT_THROW(check(rows{{-1, a, b}}, 2), check_failure) << "a row without one";
  EXPECT_THROW(check(rows{{0, {}, b}}, 1), check_failure) << "its own parent";
  EXPECT_THROW(check(rows{{1, {}, {}}, {-1, {}, {}}}, 2), check_failure) << "before its parent";
  EXPECT_THROW(check(rows{{-1, {}, {}}, {0, a, {}}}, 2), check_failure) << "two states to continue";
  EXPECT_THROW(check(rows{{-1, a, a}}, 1), check_failure) << "read and written";
  EXPECT_THROW(check(rows{{-1, {}, a}, {0, {}, a}}, 2), check_failure) << "written twice";
  EXPECT_THROW(check(rows{{-1, state_slot{2}, {}}}, 1), check_failure);
  EXPECT_THROW(check(rows{{-1, {}, state_slot{2}}}, 1), check_failure);
}

} // namespace
} // namespace paceline::cpu
