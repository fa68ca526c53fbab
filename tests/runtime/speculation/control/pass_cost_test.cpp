#include "runtime/speculation/control/pass_cost.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::speculation {
namespace {

/// 4 ms for one row, 1 ms for every further one.
double four_and_one(std::uint32_t rows) { return 4e6 + 1e6 * (rows - 1); }

TEST(pass_cost, knows_nothing_but_that_rows_cost_something) {
  const pass_cost cost;
  EXPECT_EQ(cost.ratio(1), 1.0);
  EXPECT_GT(cost.ratio(2), 1.0);
  EXPECT_GT(cost.ratio(64), cost.ratio(2));
  EXPECT_EQ(cost.time(1), 0.0);
}

TEST(pass_cost, learns_the_curve_where_passes_ran_and_lies_between_elsewhere) {
  pass_cost cost;
  for (int i = 0; i < 200; ++i)
    for (const std::uint32_t rows : {1U, 4U, 9U}) cost.observe(rows, four_and_one(rows));
  EXPECT_NEAR(cost.time(1), 4e6, 1e4);
  EXPECT_NEAR(cost.ratio(4), 1.75, 0.01);
  EXPECT_NEAR(cost.ratio(9), 3.0, 0.01);
  EXPECT_NEAR(cost.ratio(6), 2.25, 0.02);
  EXPECT_NEAR(cost.ratio(17), 5.0, 0.05) << "a straight line beyond the last one seen";
  EXPECT_NEAR(cost.ratio(200), 50.75, 1.0);
}

TEST(pass_cost, follows_a_machine_that_slows_down_without_bending_the_curve) {
  pass_cost cost;
  for (int i = 0; i < 400; ++i) cost.observe(i % 2 == 0 ? 1 : 6, four_and_one(i % 2 == 0 ? 1 : 6));
  for (int i = 0; i < 60; ++i) cost.observe(6, 2 * four_and_one(6));
  EXPECT_NEAR(cost.time(6), 2 * four_and_one(6), 0.02 * four_and_one(6));
  EXPECT_NEAR(cost.ratio(6), 2.25, 0.35);
  EXPECT_NEAR(cost.time(1), 8e6, 1.2e6);
}

TEST(pass_cost, sees_the_curve_through_noise) {
  pass_cost cost;
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> noise(0.0, 0.2);
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t rows = 1 + static_cast<std::uint32_t>(random() % 8);
    cost.observe(rows, four_and_one(rows) * noise(random));
  }
  for (std::uint32_t rows = 2; rows <= 8; ++rows)
    EXPECT_NEAR(cost.ratio(rows), four_and_one(rows) / 4e6, 0.12 * cost.ratio(rows)) << rows;
}

TEST(pass_cost, never_falls_with_more_rows) {
  pass_cost cost;
  for (int i = 0; i < 50; ++i) {
    cost.observe(1, 4e6);
    cost.observe(5, 9e6);
    cost.observe(6, 7e6);
  }
  for (std::uint32_t rows = 1; rows < 200; ++rows) EXPECT_LE(cost.ratio(rows), cost.ratio(rows + 1)) << rows;
}

TEST(pass_cost, forgets_what_has_not_been_seen_for_long) {
  pass_cost cost;
  cost.observe(1, 4e6);
  const double first_idea = cost.ratio(6);
  for (int i = 0; i < 20; ++i) cost.observe(6, 40e6); // a disturbed minute
  EXPECT_GT(cost.ratio(6), 1.5 * first_idea);
  for (int i = 0; i < 5000; ++i) cost.observe(1, 4e6);
  EXPECT_EQ(cost.ratio(6), first_idea);
}

std::vector<pass_time> measured() {
  std::vector<pass_time> times;
  for (const std::uint32_t rows : {1U, 2U, 4U, 8U, 16U}) times.push_back({rows, four_and_one(rows)});
  return times;
}

TEST(pass_cost, begins_with_what_was_measured_at_load) {
  pass_cost cost;
  cost.calibrate(measured());
  EXPECT_EQ(cost.time(1), 4e6);
  EXPECT_NEAR(cost.ratio(8), 2.75, 1e-9);
  EXPECT_NEAR(cost.ratio(6), 2.25, 1e-9) << "between two that were measured";
  EXPECT_NEAR(cost.ratio(32), 8.75, 1e-9) << "beyond the last one";
  for (std::uint32_t rows = 1; rows <= 16; ++rows) EXPECT_TRUE(cost.known(rows)) << rows;
  EXPECT_FALSE(cost.known(17));
}

TEST(pass_cost, one_slow_pass_bends_a_measured_curve_little) {
  pass_cost cost;
  cost.calibrate(measured());
  for (int i = 0; i < 20; ++i) cost.observe(1, 4e6);
  cost.observe(6, 3 * four_and_one(6));
  EXPECT_LT(cost.ratio(6), 1.15 * 2.25);
  EXPECT_LT(cost.ratio(7), 1.15 * 2.5);
}

TEST(pass_cost, follows_passes_that_go_on_taking_other_than_measured) {
  pass_cost cost;
  cost.calibrate(measured());
  for (int i = 0; i < 600; ++i) cost.observe(i % 2 == 0 ? 1 : 8, i % 2 == 0 ? 4e6 : 1.5 * four_and_one(8));
  EXPECT_NEAR(cost.ratio(8), 1.5 * 2.75, 0.1 * 1.5 * 2.75);
}

TEST(pass_cost, returns_to_what_was_measured_at_load) {
  pass_cost cost;
  cost.calibrate(measured());
  for (int i = 0; i < 60; ++i) cost.observe(6, 10 * four_and_one(6)), cost.observe(1, 4e6); // a bad minute
  EXPECT_GT(cost.ratio(6), 1.5 * 2.25);
  for (int i = 0; i < 6000; ++i) cost.observe(1, 4e6);
  EXPECT_NEAR(cost.ratio(6), 2.25, 0.05);
}

TEST(pass_cost, needs_the_time_of_one_row) {
  pass_cost cost;
  cost.calibrate(std::vector<pass_time>{{4, 7e6}});
  EXPECT_EQ(cost.time(1), 0.0);
  EXPECT_FALSE(cost.known(4));
}

} // namespace
} // namespace paceline::speculation
