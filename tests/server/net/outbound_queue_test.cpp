#include "server/net/outbound_queue.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

TEST(outbound_queue, is_congested_from_its_bound_to_half_of_it) {
  outbound_queue queue(10);
  for (int i = 0; i < 6; ++i) queue.push("ab");
  EXPECT_TRUE(queue.congested());
  const bool relieved[] = {false, false, false, true}; // 10, 8, 6 and 4 bytes are left
  for (const bool expected : relieved) {
    EXPECT_TRUE(queue.congested());
    queue.next_message();
    EXPECT_EQ(queue.written(), expected);
  }
  EXPECT_FALSE(queue.congested());
}

TEST(outbound_queue, counts_what_is_being_written) {
  outbound_queue queue(3);
  queue.push("abcd");
  EXPECT_TRUE(queue.congested());
  EXPECT_EQ(queue.next_message(), "abcd");
  EXPECT_TRUE(queue.congested() && queue.writing() && !queue.empty());
  EXPECT_TRUE(queue.written());
  EXPECT_TRUE(queue.empty() && !queue.congested());
}

TEST(outbound_queue, joins_what_waits_into_one_write) {
  outbound_queue queue(1000);
  queue.push("a");
  queue.push("b");
  EXPECT_EQ(queue.next_bytes(), "ab");
  EXPECT_FALSE(queue.has_next());
}

} // namespace
} // namespace paceline::server
