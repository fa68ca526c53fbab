#include "runtime/scheduling/by_length.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::scheduling {
namespace {

TEST(by_length, asks_once_a_length) {
  std::vector<std::uint32_t> asked;
  by_length wanted = [&](std::uint32_t length) {
    asked.push_back(length);
    return 2 * length;
  };
  for (int round = 0; round < 3; ++round)
    for (const std::uint32_t length : {5U, 0U, 64U}) EXPECT_EQ(wanted(length), 2 * length);
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{5, 0, 64}));
  by_length copy = wanted;
  EXPECT_EQ(copy(5), 10U);
  EXPECT_EQ(asked.size(), 3U) << "a copy knows what was said";
  EXPECT_FALSE(by_length());
}

} // namespace
} // namespace paceline::scheduling
