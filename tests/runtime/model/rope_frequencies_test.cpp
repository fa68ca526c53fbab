#include "runtime/model/rope_frequencies.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace paceline::model {
namespace {

void expect_frequencies(const std::vector<double>& frequencies,
                        const std::vector<std::pair<std::size_t, double>>& expected_values) {
  for (const auto& [index, value] : expected_values)
    EXPECT_NEAR(frequencies[index] / value, 1, 1e-12) << "pair " << index;
}

TEST(rope_frequencies, plain_frequencies_are_powers_of_theta) {
  const auto frequencies = rope_frequencies(rope_config(), 4);
  EXPECT_EQ(frequencies.size(), 2U);
  expect_frequencies(frequencies, {{0, 1.0}, {1, 0.01}});
}

TEST(rope_frequencies, linear_scaling_divides_all) {
  rope_config rope;
  rope.scaling = {rope_scaling_kind::linear, 8};
  expect_frequencies(rope_frequencies(rope, 4), {{0, 0.125}, {1, 0.00125}});
}

TEST(rope_frequencies, divisors_apply_pair_by_pair) {
  rope_config rope;
  rope.frequency_divisors = {1, 4};
  expect_frequencies(rope_frequencies(rope, 4), {{0, 1}, {1, 0.0025}});
}

// Expected values of the next two: the reference formulas of transformers, evaluated in float64 by NumPy.
TEST(rope_frequencies, llama3_scaling_is_the_reference) {
  rope_config rope;
  rope.theta = 500000;
  rope.scaling = {rope_scaling_kind::llama3, 32, 8192, 1, 4};
  expect_frequencies(rope_frequencies(rope, 64), {{0, 1.0},
                                                  {8, 0.03760603093086393},
                                                  {14, 0.0032114459947525913},
                                                  {15, 0.001290547928209264},
                                                  {16, 0.00042955679655936815},
                                                  {18, 1.9461638184831125e-05},
                                                  {20, 8.570255489881478e-06},
                                                  {31, 9.418306725434909e-08}});
}

TEST(rope_frequencies, yarn_scaling_is_the_reference) {
  rope_config rope;
  rope.theta = 1e6;
  rope.scaling.kind = rope_scaling_kind::yarn;
  rope.scaling.factor = 4;
  rope.scaling.original_context_length = 32768;
  expect_frequencies(rope_frequencies(rope, 128), {{0, 1.0},
                                                   {20, 0.01333521432163324},
                                                   {23, 0.006978305848598663},
                                                   {24, 0.005375321490790102},
                                                   {30, 0.0010643609812470017},
                                                   {39, 6.490394320837028e-05},
                                                   {40, 4.445698525097307e-05},
                                                   {41, 3.582531425592407e-05},
                                                   {63, 3.102344401879299e-07}});
  EXPECT_NEAR(yarn_magnitude(4), 1.138629436111989, 1e-15);
  EXPECT_EQ(yarn_magnitude(1), 1);
}

/// The ramp then begins behind its end; transformers divides by its negative length.
TEST(rope_frequencies, yarn_over_a_context_of_a_few_positions_is_the_reference) {
  rope_config rope;
  rope.scaling.kind = rope_scaling_kind::yarn;
  rope.scaling.factor = 4;
  rope.scaling.original_context_length = 6;
  rope.scaling.truncate = false;
  expect_frequencies(rope_frequencies(rope, 8), {{0, 1.0}, {1, 0.1}, {2, 0.01}, {3, 0.001}});
  rope.scaling.original_context_length = 32;
  rope.scaling.truncate = true;
  rope.scaling.beta_fast = 8, rope.scaling.beta_slow = 6;
  expect_frequencies(rope_frequencies(rope, 8), {{0, 1.0}, {1, 0.025}, {2, 0.0025}, {3, 0.00025}});
}

} // namespace
} // namespace paceline::model
