#include "server/net/output_budget.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::server::output_budget_test {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kib = 1024;

struct fixture {
  output_budget::time_point now{1h};
  std::shared_ptr<output_budget> budget = std::make_shared<output_budget>(1000 * kib, [this] { return now; });
  std::vector<std::string> told;

  std::unique_ptr<output_budget::claim> open(std::string name, const std::string& tenant = {}) {
    auto made = budget->open([this, name] { told.push_back(name); });
    made->belong_to(tenant);
    return made;
  }
};

using names = std::vector<std::string>;

TEST(output_budget, does_not_count_what_a_stream_has_on_its_way) {
  fixture f;
  const auto stream = f.open("stream");
  stream->hold(output_budget::free_bytes);
  EXPECT_EQ(f.budget->num_bytes(), 0U);
  stream->hold(output_budget::free_bytes + 1);
  EXPECT_EQ(f.budget->num_bytes(), output_budget::free_bytes + 1);
  stream->hold(100, output_budget::free_bytes);
  EXPECT_EQ(f.budget->num_bytes(), 0U);
}

TEST(output_budget, gets_back_what_waited_for_a_client_that_left) {
  fixture f;
  f.open("idle").reset();
  auto gone = f.open("gone");
  gone->hold(300 * kib);
  const auto other = f.open("other");
  other->hold(400 * kib);
  EXPECT_EQ(f.budget->num_bytes(), 700 * kib);
  gone.reset();
  EXPECT_EQ(f.budget->num_bytes(), 400 * kib);
  EXPECT_TRUE(f.told.empty());
}

TEST(output_budget, the_client_that_takes_least_gives_way) {
  fixture f;
  const auto silent = f.open("silent");
  const auto trickling = f.open("trickling");
  const auto honest = f.open("honest");
  silent->hold(100 * kib);
  trickling->hold(300 * kib);
  honest->hold(500 * kib);
  for (int i = 0; i < 10; ++i) {
    f.now += 1s;
    trickling->hold(300 * kib, 10);
    honest->hold(500 * kib, 100 * kib); // a large reply, made at the rate at which it is read
  }
  const auto fresh = f.open("fresh");
  fresh->hold(200 * kib);
  EXPECT_EQ(f.told, names{"silent"});
  EXPECT_EQ(f.budget->num_bytes(), 1000 * kib);
  fresh->hold(201 * kib);
  EXPECT_EQ(f.told, (names{"silent", "trickling"}));
  EXPECT_EQ(f.budget->num_bytes(), 701 * kib);
}

TEST(output_budget, a_client_of_the_tenant_with_most_gives_way) {
  fixture f;
  const auto modest = f.open("modest", "one key");
  const auto quick = f.open("quick", "another key");
  const auto slow = f.open("slow", "another key");
  modest->hold(400 * kib);
  quick->hold(300 * kib);
  slow->hold(300 * kib);
  for (int i = 0; i < 10; ++i) {
    f.now += 1s;
    quick->hold(300 * kib, 100 * kib); // the others read nothing
  }
  const auto next = f.open("next", "another key");
  next->hold(100 * kib);
  EXPECT_EQ(f.told, names{"slow"}) << "its key holds 700 KiB, the modest one 400";
}

TEST(output_budget, says_whose_bytes_they_are_once_the_client_does) {
  fixture f;
  auto unknown = f.open("unknown");
  unknown->hold(400 * kib);
  const auto other = f.open("other", "key");
  other->hold(500 * kib);
  unknown->belong_to("key");
  f.now += 1min;
  const auto fresh = f.open("fresh", "third");
  fresh->hold(600 * kib);
  EXPECT_EQ(f.told, names{"other"}) << "its key holds 900 KiB, the third 600";
  unknown.reset();
  EXPECT_EQ(f.budget->num_bytes(), 600 * kib);
}

TEST(output_budget, of_two_that_take_nothing_the_larger_gives_way) {
  fixture f;
  const auto small = f.open("small");
  const auto large = f.open("large");
  small->hold(100 * kib);
  f.now += 1s;
  large->hold(800 * kib); // last, so it keeps more credit until both have none
  f.now += 1min;
  const auto fresh = f.open("fresh");
  fresh->hold(200 * kib);
  EXPECT_EQ(f.told, names{"large"});
}

TEST(output_budget, one_that_was_fast_and_stopped_is_soon_the_slowest) {
  fixture f;
  const auto stopped = f.open("stopped");
  const auto steady = f.open("steady");
  stopped->hold(500 * kib);
  stopped->hold(500 * kib, 100'000 * kib);
  steady->hold(400 * kib);
  for (int i = 0; i < 10; ++i) {
    f.now += 1s;
    steady->hold(400 * kib, 20 * kib);
  }
  const auto fresh = f.open("fresh");
  fresh->hold(200 * kib);
  EXPECT_EQ(f.told, names{"stopped"});
}

TEST(output_budget, one_that_is_beyond_the_bound_alone_gives_way_itself_and_is_told_once) {
  fixture f;
  const auto one = f.open("one");
  one->hold(1001 * kib);
  EXPECT_EQ(f.told, names{"one"});
  EXPECT_EQ(f.budget->num_bytes(), 0U);
  one->hold(2000 * kib); // it is about to close
  EXPECT_EQ(f.told, names{"one"});
  EXPECT_EQ(f.budget->num_bytes(), 0U);
}

TEST(output_budget, a_client_that_has_taken_all_begins_anew) {
  fixture f;
  const auto idle = f.open("idle");
  const auto waiting = f.open("waiting");
  idle->hold(100 * kib);
  idle->hold(0, 100 * kib);
  waiting->hold(500 * kib);
  f.now += 1min;
  idle->hold(100 * kib);
  const auto fresh = f.open("fresh");
  fresh->hold(500 * kib);
  EXPECT_EQ(f.told, names{"waiting"});
}

} // namespace
} // namespace paceline::server::output_budget_test
