// A gated delta rule agrees with its equations in double precision, has the same bits on every kernel level
// and for any number of threads, and gives the same whatever passes its rows are divided into and wherever
// their states are: chains, trees, and rows of several texts.
#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/host_buffer.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/scalar_math.hpp"
#include "runtime/device/state_plan.hpp"
#include "tests/support/tensor_compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace paceline::cpu {
namespace {

using test::same_bits;

/// Rows, each after its parent (-1: the first row of its text), and their results according to the equations.
struct texts {
  device::delta_heads heads;
  std::vector<std::int32_t> parents;
  std::size_t stride = 0;
  std::vector<float> rows; ///< [row][stride]: queries, keys, values, beta, alpha, out
  std::vector<float> decay, dt_bias;
  float scale = 0.25F;

  std::size_t beta_at() const { return 2 * heads.keys_size() + heads.values_size(); }
  std::size_t out_at() const { return beta_at() + 2 * heads.num_values; }
  const float* row(std::size_t r) const { return &rows[r * stride]; }

  /// The matrix of head h after a row, in double precision.
  std::vector<double> state_after(std::int32_t r, std::uint32_t h) const {
    std::vector<double> s(std::size_t{heads.key_dim} * heads.value_dim);
    if (r < 0) return s;
    s = state_after(parents[static_cast<std::size_t>(r)], h);
    const float* const x = row(static_cast<std::size_t>(r));
    const float* const k = x + heads.keys_size() + std::size_t{heads.key_of(h)} * heads.key_dim;
    const float* const v = x + 2 * heads.keys_size() + std::size_t{h} * heads.value_dim;
    const double beta = 1 / (1 + std::exp(-double{x[beta_at() + h]}));
    const double pace = std::log1p(std::exp(double{x[beta_at() + heads.num_values + h]} + dt_bias[h]));
    const double w = std::exp(decay[h] * pace);
    for (double& one : s) one *= w;
    for (std::uint32_t j = 0; j < heads.value_dim; ++j) {
      double seen = 0;
      for (std::uint32_t i = 0; i < heads.key_dim; ++i) seen += s[i * heads.value_dim + j] * k[i];
      for (std::uint32_t i = 0; i < heads.key_dim; ++i)
        s[i * heads.value_dim + j] += k[i] * beta * (v[j] - seen);
    }
    return s;
  }

  double expected(std::size_t r, std::uint32_t h, std::uint32_t j, const std::vector<double>& state) const {
    const float* const q = row(r) + std::size_t{heads.key_of(h)} * heads.key_dim;
    double out = 0;
    for (std::uint32_t i = 0; i < heads.key_dim; ++i) out += state[i * heads.value_dim + j] * q[i];
    return out * scale;
  }
};

texts make_texts(const device::delta_heads& heads, std::vector<std::int32_t> parents, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  texts made{heads, std::move(parents), 0, {}, {}, {}};
  made.stride = made.out_at() + heads.values_size() + 3;
  made.rows.resize(made.parents.size() * made.stride);
  for (float& value : made.rows) value = normal(random);
  for (std::size_t r = 0; r < made.parents.size(); ++r) // keys are about as long as a norm makes them
    for (std::size_t i = 0; i < 2 * heads.keys_size(); ++i)
      made.rows[r * made.stride + i] /= std::sqrt(static_cast<float>(heads.key_dim));
  for (std::uint32_t h = 0; h < heads.num_values; ++h) {
    made.decay.push_back(-std::exp(normal(random)));
    made.dt_bias.push_back(normal(random));
  }
  return made;
}

std::vector<std::int32_t> chain(std::size_t length) {
  std::vector<std::int32_t> parents;
  for (std::size_t r = 0; r < length; ++r) parents.push_back(static_cast<std::int32_t>(r) - 1);
  return parents;
}

/// A text of five rows, and below its last one a tree of chains and siblings.
std::vector<std::int32_t> tree() {
  std::vector<std::int32_t> parents = chain(5);
  for (const std::int32_t node : {4, 4, 5, 5, 6, 8, 8, 10, 7}) parents.push_back(node);
  return parents;
}

std::vector<std::size_t> one_by_one(std::size_t num_rows) {
  std::vector<std::size_t> ends;
  for (std::size_t r = 1; r <= num_rows; ++r) ends.push_back(r);
  return ends;
}

/// Which rows leave their states in the slot with their number.
enum class left { all, needed_later };

struct results {
  std::vector<float> out;    ///< [row][values_size]
  std::vector<float> states; ///< [row][state_values]
};

/// Runs rows in passes that end before the given ones. Slots are `gap` values apart. `gap` may be a multiple
/// of 16, as in a pool, where slots are written past the caches.
results run(device::ops& ops, const texts& of, const std::vector<std::size_t>& ends, left states = left::all,
            std::size_t gap = 16) {
  const std::size_t slot = of.heads.state_values() + gap, width = of.heads.values_size();
  results found;
  const auto memory = make_host_buffer(of.parents.size() * slot * sizeof(float));
  const std::span slots(reinterpret_cast<float*>(memory->data()), of.parents.size() * slot);
  std::ranges::fill(slots, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> x = of.rows;
  for (std::size_t begin = 0; const std::size_t end : ends) {
    std::vector<device::row_state> rows;
    for (std::size_t r = begin; r < end; ++r) {
      const std::int32_t parent = of.parents[r];
      device::row_state row;
      if (parent >= static_cast<std::int32_t>(begin))
        row.parent = parent - static_cast<std::int32_t>(begin);
      else if (parent >= 0)
        row.read = state_slot{static_cast<std::uint32_t>(parent)};
      bool leaves = states == left::all;
      for (std::size_t later = end; later < of.parents.size(); ++later)
        leaves |= of.parents[later] == static_cast<std::int32_t>(r);
      if (leaves) row.write = state_slot{static_cast<std::uint32_t>(r)};
      rows.push_back(row);
    }
    device::gated_delta_args args;
    args.rows = rows;
    args.heads = of.heads;
    args.x = x.data() + begin * of.stride;
    args.beta = args.x + of.beta_at();
    args.alpha = args.beta + of.heads.num_values;
    args.out = x.data() + begin * of.stride + of.out_at();
    args.stride = of.stride;
    args.decay = of.decay.data();
    args.dt_bias = of.dt_bias.data();
    args.scale = of.scale;
    args.states = {slots.data(), slot, static_cast<std::uint32_t>(of.parents.size())};
    ops.gated_delta(args);
    begin = end;
  }
  for (std::size_t r = 0; r < of.parents.size(); ++r) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(r * of.stride + of.out_at());
    found.out.insert(found.out.end(), row, row + static_cast<std::ptrdiff_t>(width));
    // The gap between two rows belongs to nothing.
    for (std::size_t i = width + of.out_at(); i < of.stride; ++i)
      EXPECT_EQ(x[r * of.stride + i], of.rows[r * of.stride + i]);
    const auto state = slots.begin() + static_cast<std::ptrdiff_t>(r * slot);
    found.states.insert(found.states.end(), state, state + static_cast<std::ptrdiff_t>(slot - gap));
    for (std::size_t i = slot - gap; i < slot; ++i) EXPECT_TRUE(std::isnan(slots[r * slot + i]));
  }
  return found;
}

constexpr device::delta_heads small{2, 6, 16, 16, false}, odd{3, 3, 12, 21, false}, tiled{2, 6, 32, 40, true},
    published{4, 8, 128, 128, false};

class gated_delta : public testing::TestWithParam<std::uint32_t> {
 protected:
  gated_delta() : team_({GetParam(), {}, std::chrono::microseconds(100)}), ops_(team_, best_kernel_level()) {}
  thread_team team_;
  cpu_ops ops_;
};

TEST_P(gated_delta, follows_its_equations) {
  for (const auto& heads : {small, odd, tiled}) {
    const auto of = make_texts(heads, tree(), heads.key_dim);
    const auto found = run(ops_, of, {of.parents.size()});
    for (std::size_t r = 0; r < of.parents.size(); ++r)
      for (std::uint32_t h = 0; h < heads.num_values; ++h) {
        const auto state = of.state_after(static_cast<std::int32_t>(r), h);
        for (std::uint32_t j = 0; j < heads.value_dim; ++j)
          EXPECT_NEAR(found.out[r * heads.values_size() + std::size_t{h} * heads.value_dim + j],
                      of.expected(r, h, j, state), 2e-6)
              << "row " << r << ", head " << h << ", column " << j;
      }
  }
}

TEST_P(gated_delta, has_the_bits_of_the_reference_on_every_level) {
  cpu_ops reference(team_, kernel_level::scalar);
  for (const auto& heads : {small, odd, tiled, published}) {
    const auto of = make_texts(heads, tree(), 3 + heads.key_dim);
    const auto expected = run(reference, of, {of.parents.size()});
    for (const std::size_t gap : {5U, 16U})
      EXPECT_TRUE(same_bits(run(ops_, of, {of.parents.size()}, left::all, gap).states, expected.states));
    for (const kernel_level level : {kernel_level::avx2, kernel_level::avx_vnni, kernel_level::avx512_vnni}) {
      if (!machine_runs(level)) continue;
      cpu_ops ops(team_, level);
      const auto found = run(ops, of, {of.parents.size()});
      EXPECT_TRUE(same_bits(found.out, expected.out)) << to_string(level);
      EXPECT_TRUE(same_bits(found.states, expected.states)) << to_string(level);
    }
  }
}

TEST_P(gated_delta, a_text_gives_the_same_in_passes_of_any_size) {
  for (const auto& heads : {small, odd, published})
    for (const auto& parents : {chain(13), tree()}) {
      const auto of = make_texts(heads, parents, 7);
      const auto whole = run(ops_, of, {of.parents.size()});
      for (const auto& ends :
           {one_by_one(of.parents.size()), std::vector<std::size_t>{3, 6, 9, of.parents.size()}}) {
        const auto found = run(ops_, of, ends);
        EXPECT_TRUE(same_bits(found.out, whole.out));
        EXPECT_TRUE(same_bits(found.states, whole.states));
      }
    }
}

/// A parent whose state is in no slot and that is not the row before its child is computed again.
TEST_P(gated_delta, rows_need_no_slots_for_other_rows_of_their_pass) {
  for (const auto& parents :
       {chain(9), tree(), std::vector<std::int32_t>{-1, -1, 0, 1, 2, -1, 3, 4, 5, 2, 2}}) {
    const auto of = make_texts(small, parents, 21);
    const auto all = run(ops_, of, {of.parents.size()});
    EXPECT_TRUE(same_bits(run(ops_, of, {of.parents.size()}, left::needed_later).out, all.out));
    EXPECT_TRUE(same_bits(run(ops_, of, {4, of.parents.size()}, left::needed_later).out, all.out));
  }
}

INSTANTIATE_TEST_SUITE_P(threads, gated_delta, testing::Values(1U, 3U));

TEST(gated_delta, refuses_keys_that_its_sums_cannot_divide) {
  thread_team team({1, {}, std::chrono::microseconds(1)});
  cpu_ops ops(team, kernel_level::scalar);
  EXPECT_THROW(run(ops, make_texts({1, 1, 6, 4, false}, chain(1), 1), {1}), check_failure);
}

TEST(softplus, is_the_logarithm_to_an_ulp_or_two) {
  for (float x = -100; x <= 100; x += 0.0137F) {
    const double expected = std::log1p(std::exp(double{x}));
    const double found = device::softplus_reference(x);
    EXPECT_NEAR(found, expected, 3e-7 * expected + 2e-38) << x;
  }
  EXPECT_EQ(device::softplus_reference(200), 200);
}

using device::state_step;

TEST(plan_states, continues_rows_texts_and_slots) {
  const auto slot = [](std::uint32_t s) { return std::optional(state_slot{s}); };
  // Two texts, the first one with a tree, the second one in between.
  const std::vector<device::row_state> rows{{-1, slot(9), {}}, {0, {}, slot(1)}, {-1, {}, slot(2)},
                                            {1, {}, slot(3)},  {1, {}, slot(4)}, {2, {}, {}},
                                            {3, {}, {}}};
  const auto plan = device::plan_states(rows);
  EXPECT_EQ(plan.first, (std::vector<std::uint32_t>{0, 5, 7}));
  EXPECT_EQ(plan.steps, (std::vector<state_step>{{0, 9, state_step::nowhere, 0},
                                                 {1, state_step::previous, 1, 0},
                                                 {3, state_step::previous, 3, 0},
                                                 {4, 1, 4, 0},
                                                 {6, 3, state_step::nowhere, 0},
                                                 {2, state_step::zeros, 2, 0},
                                                 {5, state_step::previous, state_step::nowhere, 0}}));
}

TEST(plan_states, computes_again_what_was_left_nowhere) {
  const std::vector<device::row_state> rows{{-1, {}, {}}, {0, {}, {}}, {1, {}, {}}, {1, {}, {}}};
  const auto plan = device::plan_states(rows);
  EXPECT_EQ(plan.steps, (std::vector<state_step>{{0, state_step::zeros, state_step::nowhere, 0},
                                                 {1, state_step::previous, state_step::nowhere, 0},
                                                 {2, state_step::previous, state_step::nowhere, 0},
                                                 {0, state_step::zeros, state_step::nowhere, 1},
                                                 {1, state_step::previous, state_step::nowhere, 1},
                                                 {3, state_step::previous, state_step::nowhere, 0}}));
}

TEST(plan_states, has_no_texts_without_rows) { EXPECT_EQ(device::plan_states({}).num_texts(), 0U); }

} // namespace
} // namespace paceline::cpu
