#include "server/fair_share.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

std::size_t take_all(fair_share& places, const std::string& tenant, std::size_t num_tenants) {
  std::size_t count = 0;
  while (places.take(tenant, num_tenants)) ++count;
  return count;
}

TEST(fair_share, one_tenant_alone_has_every_place) {
  for (const std::size_t num_tenants : {0U, 1U}) {
    fair_share places(8);
    EXPECT_EQ(take_all(places, "", num_tenants), 8U);
    places.give_back("");
    EXPECT_TRUE(places.take("", num_tenants));
  }
}

TEST(fair_share, a_greedy_tenant_leaves_every_other_its_share) {
  fair_share places(16);
  EXPECT_EQ(take_all(places, "a", 4), 8U + 2U); // the common half and its own share
  EXPECT_EQ(take_all(places, "b", 4), 2U);
  EXPECT_EQ(take_all(places, "c", 4), 2U);
  EXPECT_EQ(take_all(places, "d", 4), 2U);
  EXPECT_EQ(places.num_taken(), 16U);
}

TEST(fair_share, what_is_given_back_goes_to_who_comes_first) {
  fair_share places(8);
  EXPECT_EQ(take_all(places, "a", 2), 6U);
  EXPECT_EQ(take_all(places, "b", 2), 2U);
  places.give_back("a");
  EXPECT_TRUE(places.take("b", 2));
  EXPECT_FALSE(places.take("a", 2));
}

TEST(fair_share, few_places_are_still_one_for_each) {
  fair_share places(3);
  EXPECT_EQ(take_all(places, "a", 3), 1U);
  EXPECT_EQ(take_all(places, "b", 3), 1U);
  EXPECT_EQ(take_all(places, "c", 3), 1U);
}

TEST(fair_share, a_request_beyond_a_share_is_served_when_it_stands_alone) {
  fair_share places(8);
  EXPECT_FALSE(places.take("a", 9, 2)) << "more than there are";
  EXPECT_TRUE(places.take("a", 8, 2)) << "beside another's two it could never be";
  EXPECT_FALSE(places.take("b", 1, 2));
  for (int i = 0; i < 8; ++i) places.give_back("a");
  EXPECT_TRUE(places.take("b", 1, 2));
  EXPECT_FALSE(places.take("a", 8, 2));
  EXPECT_TRUE(places.take("a", 7, 2));
  EXPECT_FALSE(places.take("a", 1, 2)) << "it has more than its share already";
  EXPECT_EQ(places.num_taken(), 8U);
}

TEST(fair_share, a_request_within_a_share_leaves_the_others_theirs) {
  fair_share places(8);
  EXPECT_TRUE(places.take("a", 6, 2));
  EXPECT_TRUE(places.take("b", 2, 2));
}

TEST(fair_share, holds_no_more_than_its_places_when_tenants_appear) {
  fair_share places(4);
  EXPECT_EQ(take_all(places, "a", 1), 4U);
  EXPECT_FALSE(places.take("b", 2)); // a reloaded configuration takes effect as places are returned
  places.give_back("a");
  EXPECT_TRUE(places.take("b", 2));
}

} // namespace
} // namespace paceline::server
