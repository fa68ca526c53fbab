#include "server/metrics/scrape_desk.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace paceline::server {
namespace {

/// Jobs that run when the test calls them.
class held_jobs final : public job_pool {
 public:
  bool closed = false;
  std::deque<std::function<void()>> jobs;
  std::function<void()> while_submitted = [] {};
  bool submit(std::function<void()> job, const job_traits&) override {
    while_submitted();
    if (!closed) jobs.push_back(std::move(job));
    return !closed;
  }
  void run() {
    const auto job = std::move(jobs.front());
    jobs.pop_front();
    job();
  }
};

struct desk {
  held_jobs jobs;
  int num_made = 0;
  std::function<void()> while_made = [] {};
  std::vector<std::string> answers;
  std::shared_ptr<scrape_desk> scrapes = std::make_shared<scrape_desk>(jobs, [this] {
    while_made();
    return std::to_string(++num_made);
  });

  bool ask() {
    return scrapes->ask([this](const scrape_desk::text& text) { answers.push_back(text ? *text : "none"); });
  }
};

TEST(scrape_desk, asks_nobody_on_the_callers_thread) {
  desk d;
  EXPECT_TRUE(d.ask());
  EXPECT_EQ(d.num_made, 0);
  d.jobs.run();
  EXPECT_EQ(d.answers, std::vector<std::string>{"1"});
}

TEST(scrape_desk, all_who_wait_share_one_text) {
  desk d;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(d.ask());
  EXPECT_EQ(d.jobs.jobs.size(), 1U);
  d.jobs.run();
  EXPECT_EQ(d.answers, (std::vector<std::string>{"1", "1", "1"}));
}

TEST(scrape_desk, who_asks_while_a_text_is_made_shares_the_next) {
  desk d;
  d.while_made = [&] {
    if (d.num_made > 0) return;
    EXPECT_TRUE(d.ask());
    EXPECT_TRUE(d.ask());
  };
  EXPECT_TRUE(d.ask());
  d.jobs.run();
  EXPECT_EQ(d.answers, (std::vector<std::string>{"1", "2", "2"}));
  EXPECT_TRUE(d.jobs.jobs.empty());
  EXPECT_TRUE(d.ask());
  d.jobs.run();
  EXPECT_EQ(d.answers.back(), "3");
}

TEST(scrape_desk, who_relies_on_a_job_that_cannot_start_is_told) {
  desk d;
  d.jobs.closed = true;
  d.jobs.while_submitted = [&] { EXPECT_TRUE(d.ask()) << "another call is about to start the job"; };
  EXPECT_FALSE(d.ask());
  EXPECT_EQ(d.answers, std::vector<std::string>{"none"});
}

TEST(scrape_desk, refuses_when_there_is_nobody_to_do_it) {
  desk d;
  d.jobs.closed = true;
  EXPECT_FALSE(d.ask());
  d.jobs.closed = false;
  EXPECT_TRUE(d.ask());
  d.jobs.run();
  EXPECT_EQ(d.answers, std::vector<std::string>{"1"});
}

} // namespace
} // namespace paceline::server
