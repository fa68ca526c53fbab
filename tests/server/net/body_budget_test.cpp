#include "server/net/body_budget.hpp"

#include "server/net/inbound_body.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kib = 1024;
constexpr auto small = body_budget::free_bytes;

struct fixture {
  body_budget::time_point now{1h};
  std::shared_ptr<body_budget> budget = std::make_shared<body_budget>(1000 * kib, [this] { return now; });
  std::vector<std::string> told;

  std::shared_ptr<body_budget::claim> open(std::string name, std::string tenant = "") {
    return budget->open(std::move(tenant), [this, name] { told.push_back(name); });
  }
};

TEST(body_budget, counts_what_is_beyond_a_small_body) {
  fixture f;
  const auto body = f.open("a");
  EXPECT_TRUE(body->hold(small));
  EXPECT_EQ(f.budget->num_bytes(), 0U);
  EXPECT_TRUE(body->hold(small + 10));
  EXPECT_TRUE(body->hold(small + 30));
  EXPECT_EQ(f.budget->num_bytes(), 30U);
}

TEST(body_budget, gets_back_what_a_body_held) {
  fixture f;
  f.open("a").reset();
  {
    const auto body = f.open("b");
    EXPECT_TRUE(body->hold(small + 10));
    EXPECT_TRUE(body->complete());
    EXPECT_EQ(f.budget->num_bytes(), 10U) << "it waits to be parsed";
  }
  EXPECT_EQ(f.budget->num_bytes(), 0U);
}

TEST(body_budget, the_unfinished_body_that_stalls_gives_way) {
  fixture f;
  const auto stalled = f.open("stalled");
  const auto steady = f.open("steady");
  ASSERT_TRUE(stalled->hold(small + 500 * kib)); // faster than the other, once
  for (std::size_t i = 1; i <= 10; ++i) {
    f.now += 1s;
    ASSERT_TRUE(steady->hold(small + i * 40 * kib));
  }
  const auto fresh = f.open("fresh");
  EXPECT_TRUE(fresh->hold(small + 200 * kib));
  EXPECT_EQ(f.told, std::vector<std::string>{"stalled"});
  EXPECT_TRUE(stalled->revoked());
  EXPECT_EQ(f.budget->num_bytes(), 600 * kib);
  EXPECT_EQ(f.budget->num_revoked(), 1U);
}

TEST(body_budget, a_byte_now_and_then_does_not_keep_a_body_alive) {
  fixture f;
  const auto dripping = f.open("dripping");
  ASSERT_TRUE(dripping->hold(small + 500 * kib));
  const auto steady = f.open("steady");
  ASSERT_TRUE(steady->hold(small + 400 * kib));
  for (std::size_t i = 1; i <= 100; ++i) {
    f.now += 100ms;
    ASSERT_TRUE(dripping->hold(small + 500 * kib + i));
    ASSERT_TRUE(steady->hold(small + 400 * kib + i * 100));
  }
  EXPECT_TRUE(f.open("fresh")->hold(small + 200 * kib));
  EXPECT_EQ(f.told, std::vector<std::string>{"dripping"});
}

TEST(body_budget, what_came_fast_and_stalls_is_no_match_for_what_comes_now) {
  fixture f;
  std::vector<std::shared_ptr<body_budget::claim>> stalled;
  for (int i = 0; i < 3; ++i) {
    stalled.push_back(f.open("stalled"));
    ASSERT_TRUE(stalled.back()->hold(small + 300 * kib));
  }
  f.now += 1ms;
  const auto fresh = f.open("fresh");
  for (std::size_t bytes = 16 * kib; bytes < 800 * kib; bytes += 16 * kib) ASSERT_TRUE(fresh->hold(bytes));
  EXPECT_TRUE(fresh->complete());
}

TEST(body_budget, several_give_way_until_there_is_room) {
  fixture f;
  const auto first = f.open("first");
  const auto second = f.open("second");
  const auto third = f.open("third");
  for (const auto& one : {first, second, third}) {
    ASSERT_TRUE(one->hold(small + 300 * kib));
    f.now += 1s;
  }
  EXPECT_TRUE(f.open("large")->hold(small + 700 * kib));
  EXPECT_EQ(f.told, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(f.budget->num_bytes(), 300 * kib);
}

TEST(body_budget, what_is_whole_does_not_give_way_and_the_one_that_grows_is_refused) {
  fixture f;
  const auto whole = f.open("whole");
  ASSERT_TRUE(whole->hold(small + 900 * kib));
  ASSERT_TRUE(whole->complete());
  const auto fresh = f.open("fresh");
  EXPECT_FALSE(fresh->hold(small + 200 * kib));
  EXPECT_TRUE(f.told.empty()) << "it knows by the answer";
  EXPECT_FALSE(fresh->hold(1)) << "once is for good";
  EXPECT_FALSE(fresh->complete());
  EXPECT_TRUE(f.open("little")->hold(small)) << "small bodies always find room";
  EXPECT_EQ(f.budget->num_bytes(), 900 * kib);
}

TEST(body_budget, a_tenant_that_fills_it_with_whole_bodies_makes_room_for_another) {
  fixture f;
  const auto read = f.open("read", "a");
  const auto first = f.open("first", "a");
  const auto second = f.open("second", "a");
  for (const auto& one : {read, first, second}) {
    ASSERT_TRUE(one->hold(small + 300 * kib));
    ASSERT_TRUE(one->complete());
  }
  ASSERT_TRUE(read->begin_use());
  EXPECT_FALSE(f.open("more", "a")->hold(small + 200 * kib)) << "its own do not give way to it";
  const auto other = f.open("other", "b");
  EXPECT_TRUE(other->hold(small + 200 * kib));
  EXPECT_FALSE(second->begin_use()) << "the latest is not read any more";
  EXPECT_TRUE(other->hold(small + 350 * kib));
  EXPECT_TRUE(other->hold(small + 500 * kib)) << "the other of 300 KiB gives way to 400";
  EXPECT_FALSE(first->begin_use());
  EXPECT_FALSE(other->hold(small + 800 * kib)) << "what is being read stays";
  EXPECT_EQ(f.budget->num_bytes(), 300 * kib);
}

TEST(body_budget, an_unfinished_body_gives_way_before_a_whole_one_of_its_tenant) {
  fixture f;
  const auto whole = f.open("whole", "a");
  const auto unfinished = f.open("unfinished", "a");
  ASSERT_TRUE(whole->hold(small + 500 * kib));
  ASSERT_TRUE(whole->complete());
  ASSERT_TRUE(unfinished->hold(small + 400 * kib));
  EXPECT_TRUE(f.open("other", "b")->hold(small + 200 * kib));
  EXPECT_EQ(f.told, std::vector<std::string>{"unfinished"});
  EXPECT_TRUE(whole->begin_use());
}

TEST(inbound_body, arrives_in_pieces_and_is_whole) {
  fixture f;
  inbound_body body(f.budget, "", 5, [] {});
  EXPECT_TRUE(body.append("ab"));
  EXPECT_EQ(body.missing(), 3U);
  EXPECT_TRUE(body.append("cde"));
  EXPECT_EQ(body.missing(), 0U);
  request_body whole;
  EXPECT_TRUE(body.take(whole));
  EXPECT_EQ(whole.text, "abcde");
}

TEST(inbound_body, a_large_one_counts_until_it_is_parsed) {
  fixture f;
  const std::size_t size = 900 * kib;
  inbound_body body(f.budget, "", size, [] {});
  const std::string piece(16 * kib, 'x');
  request_body whole;
  while (body.missing() > 0) ASSERT_TRUE(body.append(std::string_view(piece).substr(0, body.missing())));
  EXPECT_EQ(f.budget->num_bytes(), size - small);
  ASSERT_TRUE(body.take(whole));
  EXPECT_EQ(whole.text, std::string(size, 'x'));
  whole.owner.reset();
  EXPECT_EQ(f.budget->num_bytes(), size - small) << "until what was made of it is gone, too";
  whole = {};
  EXPECT_EQ(f.budget->num_bytes(), 0U);
}

TEST(inbound_body, learns_that_it_has_to_give_way) {
  fixture f;
  bool told = false;
  inbound_body slow(f.budget, "", 900 * kib, [&] { told = true; });
  ASSERT_TRUE(slow.append(std::string(800 * kib, 'x')));
  f.now += 10s;
  inbound_body fast(f.budget, "", 900 * kib, [] {});
  EXPECT_TRUE(fast.append(std::string(800 * kib, 'x')));
  EXPECT_TRUE(told && slow.has_to_give_way());
  EXPECT_FALSE(slow.append("x"));
  request_body whole;
  EXPECT_FALSE(slow.take(whole));
}

} // namespace
} // namespace paceline::server
