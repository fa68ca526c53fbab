// Where the taps of a short convolution find the inputs of earlier rows.
#include "runtime/device/conv_plan.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace paceline::device {
namespace {

using enum conv_input::source;
using inputs = std::vector<conv_input>;

row_state after(std::int32_t parent) {
  row_state row;
  row.parent = parent;
  return row;
}

/// Those of row `r` in a plan with three taps.
inputs of_row(const inputs& plan, std::size_t r) { return {plan.at(2 * r), plan.at(2 * r + 1)}; }

TEST(conv_plan, a_text_begins_with_zeros) {
  const std::vector<row_state> rows{{}, after(0), after(1)};
  const auto plan = plan_conv(rows, 3);
  ASSERT_EQ(plan.size(), 6U);
  EXPECT_EQ(of_row(plan, 0), (inputs{{zeros}, {zeros}}));
  EXPECT_EQ(of_row(plan, 1), (inputs{{zeros}, {row, 0}}));
  EXPECT_EQ(of_row(plan, 2), (inputs{{row, 0}, {row, 1}}));
}

TEST(conv_plan, a_text_goes_on_from_the_records_of_its_slot) {
  const std::vector<row_state> rows{{-1, state_slot{5}, std::nullopt}, after(0), after(1)};
  const auto plan = plan_conv(rows, 3);
  EXPECT_EQ(of_row(plan, 0), (inputs{{slot, 5, 0}, {slot, 5, 1}}));
  EXPECT_EQ(of_row(plan, 1), (inputs{{slot, 5, 1}, {row, 0}}));
  EXPECT_EQ(of_row(plan, 2), (inputs{{row, 0}, {row, 1}}));
}

TEST(conv_plan, siblings_have_the_inputs_of_their_parent) {
  const std::vector<row_state> rows{{-1, state_slot{0}, std::nullopt}, after(0), after(0), after(2), {}};
  const auto plan = plan_conv(rows, 3);
  EXPECT_EQ(of_row(plan, 1), of_row(plan, 2));
  EXPECT_EQ(of_row(plan, 3), (inputs{{row, 0}, {row, 2}}));
  EXPECT_EQ(of_row(plan, 4), (inputs{{zeros}, {zeros}})) << "another text";
}

TEST(conv_plan, two_taps_have_one_earlier_input) {
  const std::vector<row_state> rows{{-1, state_slot{3}, std::nullopt}, after(0), {}};
  EXPECT_EQ(plan_conv(rows, 2), (inputs{{slot, 3, 0}, {row, 0}, {zeros}}));
  EXPECT_TRUE(plan_conv({}, 2).empty());
}

} // namespace
} // namespace paceline::device
