// The routings of published mixtures of experts, on logits whose results can be computed by hand.
#include "runtime/device/expert_routing.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace paceline::device {
namespace {

std::vector<used_expert> routed(const expert_routing& by, const std::vector<float>& logits) {
  std::vector<used_expert> slots(by.num_used);
  route(by, logits, slots);
  return slots;
}

expert_routing routing_of(std::uint32_t num_experts, std::uint32_t num_used, expert_gating gating) {
  expert_routing by;
  by.num_experts = num_experts;
  by.num_used = num_used;
  by.gating = gating;
  return by;
}

void expect(const std::vector<used_expert>& slots, const std::vector<std::pair<int, double>>& wanted) {
  ASSERT_EQ(slots.size(), wanted.size());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    EXPECT_EQ(slots[s].index, wanted[s].first) << "slot " << s;
    EXPECT_NEAR(static_cast<double>(slots[s].weight), wanted[s].second, 1e-6) << "slot " << s;
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(expert_routing_test, softmax_among_all_experts) {
  const std::vector<float> logits{1, 3, 0, 2};
  const double sum = std::exp(1.0) + std::exp(3.0) + 1 + std::exp(2.0);
  auto by = routing_of(4, 2, expert_gating::softmax);
  expect(routed(by, logits), {{1, std::exp(3.0) / sum}, {3, std::exp(2.0) / sum}});
  by.normalised = true;
  expect(routed(by, logits), {{1, sigmoid(1)}, {3, sigmoid(-1)}});
  by.scale = 2.5F;
  expect(routed(by, logits), {{1, 2.5 * sigmoid(1)}, {3, 2.5 * sigmoid(-1)}});
}

TEST(expert_routing_test, softmax_of_the_selected_experts) {
  expect(routed(routing_of(4, 2, expert_gating::softmax_of_selected), {1, 3, 0, 2}),
         {{1, sigmoid(1)}, {3, sigmoid(-1)}});
}

TEST(expert_routing_test, a_bias_selects_but_does_not_weigh) {
  auto by = routing_of(4, 2, expert_gating::sigmoid);
  const std::vector<float> bias{0.9F, 0, 0, 0};
  by.selection_bias = bias.data();
  expect(routed(by, {-1, 1, 0, 0.5F}), {{0, sigmoid(-1)}, {1, sigmoid(1)}});
  by.normalised = true;
  by.divisor_epsilon = 0.25F;
  const double sum = sigmoid(-1) + sigmoid(1) + 0.25;
  expect(routed(by, {-1, 1, 0, 0.5F}), {{0, sigmoid(-1) / sum}, {1, sigmoid(1) / sum}});
}

TEST(expert_routing_test, scores_that_are_equal_do_not_make_experts_equal) {
  for (const auto gating :
       {expert_gating::sigmoid, expert_gating::softmax, expert_gating::softmax_of_selected})
    EXPECT_EQ(routed(routing_of(3, 1, gating), {20, 25, 21})[0].index, 1); // sigmoids of 1 in float32
}

TEST(expert_routing_test, only_the_best_groups_are_used) {
  auto by = routing_of(6, 2, expert_gating::sigmoid);
  by.num_groups = by.num_used_groups = 3;
  // The sigmoids of the groups: 0.95 + 0.05, 0.88 + 0.87 and 0.27 + 0.12.
  const std::vector<float> logits{3, -3, 2, 1.9F, -1, -2};
  expect(routed(by, logits), {{0, sigmoid(3)}, {2, sigmoid(2)}});
  by.num_used_groups = 1;
  expect(routed(by, logits), {{2, sigmoid(2)}, {3, sigmoid(1.9)}});
  by.groups_by_best = true;
  expect(routed(by, logits), {{0, sigmoid(3)}, {1, sigmoid(-3)}});
  by.num_used = 4;
  by.num_used_groups = 2;
  expect(routed(by, logits), {{0, sigmoid(3)}, {2, sigmoid(2)}, {3, sigmoid(1.9)}, {1, sigmoid(-3)}});
}

TEST(expert_routing_test, ties_go_to_the_lowest_index_and_nan_comes_last) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto by = routing_of(5, 3, expert_gating::softmax);
  const auto tied = routed(by, {2, 1, 2, 2, 2});
  EXPECT_EQ(tied[0].index, 0);
  EXPECT_EQ(tied[1].index, 2);
  EXPECT_EQ(tied[2].index, 3);
  const auto broken = routed(by, {nan, 1, nan, 2, nan});
  EXPECT_EQ(broken[0].index, 3);
  EXPECT_EQ(broken[1].index, 1);
  EXPECT_EQ(broken[2].index, 0);
  EXPECT_TRUE(std::isnan(broken[0].weight)) << "a broken router must not give a usable output";
}

TEST(expert_routing_test, outputs_have_scales) {
  auto by = routing_of(3, 2, expert_gating::softmax_of_selected);
  const std::vector<float> scales{10, 20, 30};
  by.output_scales = scales.data();
  expect(routed(by, {0, 5, 4}), {{1, 20 * sigmoid(1)}, {2, 30 * sigmoid(-1)}});
}

} // namespace
} // namespace paceline::device
