#include "server/job_queue.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::server {
namespace {

struct recorded_queue {
  job_queue queue{8};
  std::string ran;

  bool push(char name, const std::string& tenant, bool large = false) {
    return queue.push([this, name] { ran += name; }, {tenant, 2, large});
  }
  bool run(bool large_ones_may_run = true) {
    auto job = queue.pop(large_ones_may_run);
    if (job) job->run();
    return job.has_value();
  }
};

TEST(job_queue, tenants_take_turns) {
  recorded_queue q;
  for (const char name : {'1', '2', '3', '4'}) EXPECT_TRUE(q.push(name, "a"));
  EXPECT_TRUE(q.push('x', "b"));
  EXPECT_TRUE(q.push('y', "b"));
  while (q.run()) {
  }
  EXPECT_EQ(q.ran, "1x2y34");
}

TEST(job_queue, small_jobs_pass_large_ones_that_may_not_run) {
  recorded_queue q;
  EXPECT_TRUE(q.push('L', "a", true));
  EXPECT_TRUE(q.push('M', "a", true));
  EXPECT_TRUE(q.push('s', "a"));
  EXPECT_TRUE(q.run(false));
  EXPECT_FALSE(q.run(false));
  EXPECT_TRUE(q.run());
  EXPECT_TRUE(q.run());
  EXPECT_EQ(q.ran, "sLM");
}

TEST(job_queue, what_goes_on_with_an_earlier_job_comes_first_of_its_tenant) {
  recorded_queue q;
  EXPECT_TRUE(q.push('1', "a"));
  EXPECT_TRUE(q.push('x', "b"));
  EXPECT_TRUE(q.push('2', "a"));
  EXPECT_TRUE(q.run());
  EXPECT_TRUE(q.queue.push([&q] { q.ran += 'c'; }, {"a", 2, false, true}));
  while (q.run()) {
  }
  EXPECT_EQ(q.ran, "1xc2");
}

TEST(job_queue, a_tenant_that_fills_its_places_leaves_the_other_some) {
  recorded_queue q;
  int num_of_a = 0;
  while (q.push('a', "a")) ++num_of_a;
  EXPECT_EQ(num_of_a, 6);
  EXPECT_TRUE(q.push('b', "b"));
  EXPECT_TRUE(q.push('b', "b"));
  EXPECT_FALSE(q.push('b', "b"));
}

} // namespace
} // namespace paceline::server
