#include "server/sessions/conversation_store.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

std::vector<wire::chat_message> turn(std::size_t bytes) {
  return {{"user", std::string(bytes, 'x'), "", {}, ""}};
}

std::shared_ptr<kept_memory> unbounded() { return std::make_shared<kept_memory>(kept_memory::no_bound); }

TEST(conversation_store, forgets_the_least_recently_used) {
  conversation_store store(2, 1 << 20, unbounded(), "");
  store.put("a", turn(1));
  store.put("b", turn(1));
  EXPECT_TRUE(store.find("a"));
  store.put("c", turn(1));
  EXPECT_TRUE(store.find("a"));
  EXPECT_FALSE(store.find("b"));
}

TEST(conversation_store, is_bounded_in_bytes) {
  conversation_store store(100, 10'000, unbounded(), "");
  for (int i = 0; i < 50; ++i) {
    store.put(std::to_string(i), turn(1000));
    EXPECT_LE(store.num_bytes(), 10'000U);
  }
  EXPECT_GT(store.num_entries(), 2U);
  store.put("huge", turn(20'000));
  EXPECT_FALSE(store.find("huge"));
  store.put("thoughts", {{"assistant", "x", "", {}, "", std::string(20'000, 'x')}});
  EXPECT_FALSE(store.find("thoughts"));
  EXPECT_TRUE(store.find("49"));
}

TEST(conversation_store, gives_way_to_other_connections_the_longest_unused_first) {
  const auto shared = std::make_shared<kept_memory>(10'000);
  conversation_store one(100, 1 << 20, shared, "");
  conversation_store other(100, 1 << 20, shared, "");
  one.put("a", turn(4000));
  one.put("b", turn(4000));
  EXPECT_TRUE(one.find("a")); // "b" is now the least recently used
  other.put("c", turn(4000));
  EXPECT_LE(shared->num_bytes(), 10'000U);
  EXPECT_FALSE(one.find("b"));
  EXPECT_TRUE(one.find("a") && other.find("c"));
  EXPECT_EQ(one.num_entries(), 1U);
  EXPECT_EQ(shared->num_evicted(), 1U);
}

TEST(conversation_store, gives_its_bytes_back_at_its_end) {
  const auto shared = std::make_shared<kept_memory>(kept_memory::no_bound);
  {
    conversation_store store(100, 10'000, shared, "");
    for (int i = 0; i < 50; ++i) store.put(std::to_string(i), turn(1000));
    EXPECT_EQ(shared->num_bytes(), store.num_bytes());
  }
  EXPECT_EQ(shared->num_bytes(), 0U);
}

} // namespace
} // namespace paceline::server
