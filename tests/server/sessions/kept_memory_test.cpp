#include "server/sessions/kept_memory.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::server {
namespace {

struct shelf {
  std::shared_ptr<kept_memory> memory = std::make_shared<kept_memory>(100);
  std::string evicted; ///< names, in order

  std::shared_ptr<kept_memory::claim> keep(char name, std::size_t bytes, std::string tenant = "") {
    auto claim = memory->open(std::move(tenant), [this, name] { evicted += name; });
    claim->resize(bytes);
    return claim;
  }
};

TEST(kept_memory, evicts_what_rests_the_longest_first) {
  shelf s;
  const auto a = s.keep('a', 40);
  const auto b = s.keep('b', 40);
  a->rest();
  b->rest();
  a->rest(); // used again
  const auto c = s.keep('c', 40);
  EXPECT_EQ(s.evicted, "");
  EXPECT_TRUE(s.memory->make_room());
  EXPECT_EQ(s.evicted, "b");
  EXPECT_EQ(s.memory->num_bytes(), 80U);
  EXPECT_FALSE(b->wake());
  EXPECT_TRUE(a->wake());
}

TEST(kept_memory, evicts_what_the_tenant_with_most_has_left) {
  shelf s;
  const auto a = s.keep('a', 20, "modest");
  const auto b = s.keep('b', 40, "greedy");
  const auto c = s.keep('c', 40, "greedy");
  const auto d = s.keep('d', 40, "third");
  for (const auto& one : {a, b, c, d}) one->rest();
  EXPECT_TRUE(s.memory->make_room());
  EXPECT_EQ(s.evicted, "b");
  const auto e = s.keep('e', 60, "greedy"); // in use: older entries are evicted instead
  EXPECT_TRUE(s.memory->make_room());
  EXPECT_EQ(s.evicted, "bcd");
  EXPECT_TRUE(a->wake());
}

TEST(kept_memory, leaves_what_is_in_use_and_says_that_it_does_not_fit) {
  shelf s;
  const auto a = s.keep('a', 80);
  const auto b = s.keep('b', 80);
  EXPECT_FALSE(s.memory->make_room());
  a->rest();
  EXPECT_TRUE(a->wake());
  EXPECT_FALSE(s.memory->make_room());
  b->rest();
  EXPECT_TRUE(s.memory->make_room());
  EXPECT_EQ(s.evicted, "b");
}

TEST(kept_memory, counts_an_evicted_one_no_more) {
  shelf s;
  auto a = s.keep('a', 150);
  a->rest();
  EXPECT_TRUE(s.memory->make_room());
  a->resize(200); // its owner has not been told yet
  a->rest();
  EXPECT_EQ(s.memory->num_bytes(), 0U);
  EXPECT_TRUE(s.memory->make_room());
  a.reset();
  EXPECT_EQ(s.memory->num_bytes(), 0U);
  EXPECT_EQ(s.evicted, "a");
}

TEST(kept_memory, an_owner_that_ends_gives_its_bytes_back) {
  shelf s;
  auto a = s.keep('a', 60);
  a->rest();
  a.reset();
  const auto b = s.keep('b', 100);
  EXPECT_TRUE(s.memory->make_room());
  EXPECT_EQ(s.evicted, "");
}

} // namespace
} // namespace paceline::server
