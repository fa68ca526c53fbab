#include "runtime/speculation/control/acceptance_model.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <random>

namespace paceline::speculation {
namespace {

TEST(acceptance_table, learns_each_kind_of_place_by_itself) {
  acceptance_table table;
  for (int i = 0; i < 1000; ++i) {
    table.count({.signal = 2, .depth = 0, .rank = 0}, i % 4 != 0);
    table.count({.signal = 2, .depth = 0, .rank = 1}, i % 10 == 0);
    table.count({.signal = 7, .depth = 5, .rank = 0}, i % 50 != 0);
  }
  EXPECT_NEAR(table.probability({2, 0, 0}), 0.75, 0.03);
  EXPECT_NEAR(table.probability({2, 0, 1}), 0.10, 0.03);
  EXPECT_NEAR(table.probability({7, 5, 0}), 0.98, 0.02);
  EXPECT_NEAR(table.probability({7, 6, 0}), 0.98, 0.02) << "levels 4 to 7 are one kind";
  EXPECT_NEAR(table.probability({0, 0, 0}), 0.5, 1e-9) << "never seen";
  EXPECT_LT(table.probability({0, 0, 1}), 0.5) << "a second choice is less likely than a first";
  EXPECT_GT(table.probability({6, 0, 0}), table.probability({3, 0, 0})) << "the drafter's own word, at first";
}

TEST(acceptance_table, follows_a_change) {
  acceptance_table table;
  for (int i = 0; i < 5000; ++i) table.count({}, true);
  for (int i = 0; i < 2000; ++i) table.count({}, false);
  EXPECT_LT(table.probability({}), 0.05);
}

TEST(request_bias, leaves_probabilities_alone_while_a_request_is_like_the_others) {
  request_bias bias;
  std::mt19937_64 random(3);
  std::bernoulli_distribution right(0.6);
  double sum = 0;
  for (int i = 0; i < 4000; ++i) {
    bias.count(0.6, right(random));
    sum += bias.apply(0.6);
  }
  EXPECT_NEAR(sum / 4000, 0.6, 0.03);
}

TEST(request_bias, finds_a_request_that_accepts_nothing_after_a_few_tokens) {
  request_bias bias;
  EXPECT_NEAR(bias.apply(0.5), 0.5, 1e-9);
  double before = 0.5;
  for (int i = 0; i < 8; ++i) {
    bias.count(0.5, false);
    EXPECT_LT(bias.apply(0.5), before);
    before = bias.apply(0.5);
  }
  EXPECT_LT(before, 0.3);
  EXPECT_GT(bias.apply(0.99), bias.apply(0.5)) << "the order of places stays";
}

TEST(request_bias, believes_in_the_end_that_nothing_is_right) {
  request_bias bias;
  for (int i = 0; i < 200; ++i) bias.count(0.5, false);
  EXPECT_LT(bias.apply(0.5), 0.05);
  EXPECT_LT(bias.apply(0.9), 0.3);
}

TEST(request_bias, forgets_how_a_request_began) {
  request_bias bias;
  for (int i = 0; i < 200; ++i) bias.count(0.5, false);
  for (int i = 0; i < 60; ++i) bias.count(0.5, true);
  EXPECT_GT(bias.apply(0.5), 0.5);
}

TEST(request_bias, is_cautious_with_a_request_that_it_does_not_know) {
  request_bias bias;
  EXPECT_LT(bias.at_least(0.5), 0.45);
  EXPECT_GT(bias.at_least(0.5), 0.3);
  for (int i = 0; i < 200; ++i) bias.count(0.5, i % 2 == 0);
  EXPECT_GT(bias.at_least(0.5), 0.45) << "by now it knows";
}

TEST(acceptance_table, begins_with_the_record_of_the_drafter) {
  const acceptance_table table({0, 0.2F, 0.9F});
  EXPECT_NEAR(table.probability({.signal = 1}), 0.2, 0.01);
  EXPECT_NEAR(table.probability({.signal = 2}), 0.9, 0.01);
  EXPECT_GT(table.probability({.signal = 1, .depth = 4}), 0.3) << "below tokens that were right";
  EXPECT_NEAR(table.probability({.signal = 2, .rank = 1}), 0.45, 0.01) << "of what the first one leaves";
  EXPECT_NEAR(table.probability({.signal = 3}), acceptance_table().probability({.signal = 3}), 1e-12);
}

TEST(acceptance_table, forgets_the_record_where_the_drafter_does_otherwise) {
  acceptance_table table({0, 0.9F});
  for (int i = 0; i < 100; ++i) table.count({.signal = 1}, i % 10 == 0);
  EXPECT_LT(table.probability({.signal = 1}), 0.2);
}

TEST(acceptance_table, bears_a_record_that_is_none) {
  const acceptance_table table({1.0F, 7.0F, std::nanf(""), -1.0F});
  for (std::uint8_t signal = 0; signal < 4; ++signal) {
    EXPECT_GT(table.probability({.signal = signal, .depth = 9}), 0.0);
    EXPECT_LT(table.probability({.signal = signal, .depth = 9}), 1.0);
  }
}

} // namespace
} // namespace paceline::speculation
