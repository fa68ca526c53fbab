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
    ASSERT_TRUE(pool.submit([&, gate = release.get_future().share()] {
      begun.set_value();
      gate.wait();
    }));
    begun.get_future().wait();
    EXPECT_TRUE(pool.submit([&] { ran.set_value(7); }));
    EXPECT_FALSE(pool.submit([] {}));
    release.set_value();
    EXPECT_EQ(ran.get_future().get(), 7);
  }
}

} // namespace
} // namespace paceline::server
