#include "server/sessions/conversation_store.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

std::vector<wire::chat_message> turn(std::size_t bytes) {
  return {{"user", std::string(bytes, 'x'), "", {}, ""}};
}

TEST(conversation_store, forgets_the_least_recently_used) {
  conversation_store store(2, 1 << 20);
  store.put("a", turn(1));
  store.put("b", turn(1));
  EXPECT_NE(store.find("a"), nullptr);
  store.put("c", turn(1));
  EXPECT_NE(store.find("a"), nullptr);
  EXPECT_EQ(store.find("b"), nullptr);
}

TEST(conversation_store, is_bounded_in_bytes) {
  conversation_store store(100, 10'000);
  for (int i = 0; i < 50; ++i) {
    store.put(std::to_string(i), turn(1000));
    EXPECT_LE(store.num_bytes(), 10'000U);
  }
  EXPECT_GT(store.num_entries(), 2U);
  store.put("huge", turn(20'000));
  EXPECT_EQ(store.find("huge"), nullptr);
  EXPECT_NE(store.find("49"), nullptr);
}

} // namespace
} // namespace paceline::server
