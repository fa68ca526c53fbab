#include "server/waiting_places.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(waiting_places, another_key_always_finds_some) {
  waiting_places places;
  std::size_t taken = 0;
  while (places.take("m", 16, "greedy", 1, 2)) ++taken;
  EXPECT_EQ(taken, 12U); // all except the other key's share
  EXPECT_TRUE(places.take("m", 16, "modest", 4, 2));
  EXPECT_FALSE(places.take("m", 16, "modest", 1, 2));
  EXPECT_TRUE(places.take("other model", 16, "greedy", 12, 2));
}

TEST(waiting_places, a_lone_key_has_them_all_and_the_engine_judges) {
  waiting_places places;
  EXPECT_TRUE(places.take("m", 4, "only", 100, 1));
  EXPECT_TRUE(places.take("m", 4, "", 100, 0));
}

TEST(waiting_places, a_request_gets_all_it_needs_or_nothing) {
  waiting_places places;
  EXPECT_TRUE(places.take("m", 16, "a", 11, 2));
  EXPECT_FALSE(places.take("m", 16, "a", 2, 2));
  EXPECT_TRUE(places.take("m", 16, "a", 1, 2));
  EXPECT_FALSE(places.take("m", 16, "a", 1, 2));
  places.give_back("m", "a");
  EXPECT_TRUE(places.take("m", 16, "a", 1, 2));
}

} // namespace
} // namespace paceline::server
