#include "tests/runtime/scheduling/decided.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

namespace paceline::scheduling {
namespace {

using namespace test_support;

constexpr request_id needy{1}, other{2};

/// Two requests that decode: the first lacks blocks, the second gets what it requests.
class memory_pressure : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [id, num_blocks] : {std::pair{needy, 3U}, std::pair{other, 16U}}) {
      length_[id] = 8;
      const auto asked =
          last<acquire_command>(state_.submit(make_request(id, 8, 40), plain_decoding, 1000, start));
      ASSERT_TRUE(asked);
      take(state_.on_leases({grant(id, target_pool, asked->ticket, num_blocks)}, false, start));
    }
  }
  /// The pool answers at once: it refuses the first request unless `generous_`.
  void take(decisions d) {
    for (auto& plan : d.rounds) in_flight_.push_back(std::move(plan));
    for (const auto& command : d.pool) {
      if (const auto* gone = std::get_if<release_command>(&command)) released_ |= gone->request == other;
      if (const auto* asked = std::get_if<reserve_command>(&command))
        take(state_.on_leases(
            {generous_ || asked->request == other
                 ? grant(asked->request, target_pool, asked->ticket, 16)
                 : lease_event{asked->request, target_pool, asked->ticket, false, {}, 0, {}}},
            false, start));
    }
  }
  /// The oldest round in flight returns, with one more token for each request.
  void report() {
    ASSERT_FALSE(in_flight_.empty());
    const auto plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    auto result = done(plan, 1, 0);
    result.items.clear();
    for (const auto& item : plan.items) {
      item_result made;
      made.request = item.request.id();
      made.length = ++length_[made.request];
      made.kv_length = made.length - 1;
      made.committed = {token_id{7}};
      result.items.push_back(std::move(made));
    }
    take(state_.on_round_done(result, start));
    ASSERT_EQ(state_.check_invariants(), "");
  }
  /// The first request was refused: the second is preempted when its rounds are done.
  void report_until_one_gives_way() {
    for (int i = 0; i < 20 && state_.describe().find("gives way") == std::string::npos; ++i) report();
    ASSERT_NE(state_.describe().find("gives way"), std::string::npos);
    ASSERT_FALSE(released_);
  }
  bool takes_part(request_id id) const {
    return !in_flight_.empty() && std::ranges::any_of(in_flight_.back().items, [&](const auto& item) {
      return item.request.id() == id;
    });
  }

  scheduler_state state_{small_options()};
  std::deque<round_plan> in_flight_;
  std::map<request_id, std::uint32_t> length_;
  bool generous_ = false;
  bool released_ = false;
};

TEST_F(memory_pressure, news_of_blocks_that_do_not_suffice_does_not_save_who_gives_way) {
  for (int i = 0; i < 20 && !released_; ++i) {
    report();
    take(state_.on_leases({}, true, start)); // another model's request released some, but too few
  }
  EXPECT_TRUE(released_) << "the needy one starves";
}

TEST_F(memory_pressure, who_gives_way_stays_when_the_needy_one_has_got_its_blocks) {
  report_until_one_gives_way();
  generous_ = true;
  take(state_.on_leases({}, true, start));
  for (int i = 0; i < 6; ++i) report();
  EXPECT_FALSE(released_);
  EXPECT_TRUE(takes_part(needy));
  EXPECT_TRUE(takes_part(other));
  EXPECT_EQ(state_.counters().num_preemptions, 0U);
}

TEST_F(memory_pressure, one_gives_way_at_a_time) {
  take(state_.cancel(other, start));
  report();                                 // the other one is preempted
  for (const std::uint64_t id : {3U, 4U}) { // and two arrive that are blocked after their first token
    const auto asked =
        last<acquire_command>(state_.submit(make_request(request_id{id}, 8, 40), plain_decoding, 1, start));
    ASSERT_TRUE(asked);
    length_[request_id{id}] = 8;
    take(state_.on_leases({grant(request_id{id}, target_pool, asked->ticket, 4)}, false, start));
  }
  while (!in_flight_.empty() && state_.counters().num_preemptions == 0) report();
  EXPECT_EQ(state_.counters().num_preemptions, 1U) << state_.describe();
  generous_ = true;
  take(state_.on_leases({}, true, start)); // enough blocks were released
  for (int i = 0; i < 4; ++i) report();
  EXPECT_EQ(state_.counters().num_preemptions, 1U) << state_.describe();
}

TEST_F(memory_pressure, who_gives_way_stays_when_the_needy_one_is_cancelled) {
  report_until_one_gives_way();
  generous_ = true; // with what the needy one had
  take(state_.cancel(needy, start));
  for (int i = 0; i < 4; ++i) report();
  EXPECT_FALSE(released_);
  EXPECT_TRUE(takes_part(other));
}

} // namespace
} // namespace paceline::scheduling
