#include "server/net/io_runtime.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace paceline::server {
namespace {

TEST(io_runtime, runs_what_was_posted_before_the_end_and_drops_what_comes_later) {
  const auto runtime = std::make_shared<io_runtime>(2);
  const auto executor = runtime->make_executor(runtime->make_strand());
  int num_run = 0;
  for (int i = 0; i < 100; ++i) executor->post([&num_run] { ++num_run; });
  runtime->finish();
  EXPECT_EQ(num_run, 100);
  const auto held = std::make_shared<int>(0);
  executor->post([&num_run, held] { ++num_run; });
  EXPECT_EQ(num_run, 100);
  EXPECT_EQ(held.use_count(), 1) << "a dropped task is freed";
}

/// A task that stays queued would keep its executor, which owns the runtime and with it the queue.
TEST(io_runtime, is_freed_although_tasks_are_posted_while_it_ends) {
  for (int round = 0; round < 300; ++round) {
    auto runtime = std::make_shared<io_runtime>(1);
    const std::weak_ptr<io_runtime> owned = runtime;
    auto executor = runtime->make_executor(runtime->make_strand());
    std::atomic<bool> begun{false}, ended{false};
    std::thread poster([&] {
      while (!ended) {
        executor->post([executor] {});
        begun = true;
      }
    });
    while (!begun) std::this_thread::yield();
    runtime->finish();
    ended = true;
    poster.join();
    executor.reset();
    runtime.reset();
    ASSERT_TRUE(owned.expired()) << "round " << round;
  }
}

} // namespace
} // namespace paceline::server
