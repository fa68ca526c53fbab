#include "apps/top/result_within.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace paceline::apps {
namespace {

/// A call that returns only when this object is destroyed, which waits for it.
struct held_call {
  std::promise<void> release, returned;

  auto work() {
    return [this, released = release.get_future().share()] {
      released.wait();
      returned.set_value_at_thread_exit();
      return 1;
    };
  }
  ~held_call() {
    release.set_value();
    returned.get_future().wait();
  }
};

TEST(result_within, gives_what_the_call_returns) {
  EXPECT_EQ(result_within(std::chrono::hours(1), [] { return std::string("found"); }), "found");
}

TEST(result_within, throws_what_the_call_throws) {
  EXPECT_THROW(result_within(std::chrono::hours(1), []() -> int { throw std::runtime_error("lost"); }),
               std::runtime_error);
}

TEST(result_within, gives_up_a_call_that_does_not_return) {
  held_call held;
  EXPECT_EQ(result_within(std::chrono::milliseconds(1), held.work()), std::nullopt);
}

TEST(result_within, gives_up_when_the_caller_wants_an_end) {
  held_call held;
  int num_asked = 0;
  EXPECT_EQ(result_within(std::chrono::hours(1), held.work(), [&] { return ++num_asked == 2; }),
            std::nullopt);
}

} // namespace
} // namespace paceline::apps
