#include "server/edge_pool.hpp"

#include <gtest/gtest.h>

#include <future>

namespace paceline::server {
namespace {

TEST(edge_pool, runs_jobs_and_refuses_what_exceeds_its_queue) {
  std::promise<void> release;
  std::promise<void> begun;
  std::promise<int> ran;
  {
    edge_pool pool(1, 1);
    ASSERT_TRUE(pool.submit(
        [&, gate = release.get_future().share()] {
          begun.set_value();
          gate.wait();
        },
        {}));
    begun.get_future().wait();
    EXPECT_TRUE(pool.submit([&] { ran.set_value(7); }, {}));
    EXPECT_FALSE(pool.submit([] {}, {}));
    release.set_value();
    EXPECT_EQ(ran.get_future().get(), 7);
  }
}

TEST(edge_pool, large_jobs_leave_a_thread_for_small_ones) {
  std::promise<void> release;
  const auto gate = release.get_future().share();
  std::promise<void> begun;
  std::promise<void> ran;
  edge_pool pool(2, 8);
  ASSERT_TRUE(pool.submit(
      [&] {
        begun.set_value();
        gate.wait();
      },
      {"a", 2, true}));
  begun.get_future().wait();
  ASSERT_TRUE(pool.submit([&] { gate.wait(); }, {"b", 2, true}));
  ASSERT_TRUE(pool.submit([&] { ran.set_value(); }, {"a", 2, false}));
  ran.get_future().wait(); // would never complete if both large ones ran
  release.set_value();
}

} // namespace
} // namespace paceline::server
