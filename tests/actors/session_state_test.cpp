// A session's decisions, without actors: schedulers are numbers here, and messages arrive in every order.
#include "actors/session_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace paceline::actors {
namespace {

using state = session_state<int>; // 0 is no scheduler

constexpr model_number its_model{1}, other_model{0};

state made(std::uint64_t credit = 100, std::uint32_t own_window = 0) {
  return state({request_id{7}, its_model, credit, own_window});
}
state started(std::uint64_t credit = 100, std::uint32_t own_window = 0) {
  auto s = made(credit, own_window);
  s.on_start(1);
  return s;
}

token_event tokens(std::uint32_t first, std::uint32_t num, finish_reason finish = finish_reason::none) {
  token_event event;
  event.request = request_id{7};
  event.first_index = first;
  event.tokens.resize(num);
  event.finish = finish;
  return event;
}

const session_actions nothing;

TEST(session_state, submits_once_it_is_started) {
  auto s = made();
  const auto actions = s.on_start(1);
  EXPECT_TRUE(actions.submit);
  EXPECT_FALSE(actions.cancel || actions.deliver || actions.over || actions.credit);
  EXPECT_EQ(s.scheduler(), 1);
  EXPECT_EQ(s.on_start(2), nothing) << "a second start";
  EXPECT_EQ(s.scheduler(), 1);
}

TEST(session_state, a_cancellation_before_the_start_follows_the_submission) {
  auto s = made();
  EXPECT_EQ(s.on_cancel(), nothing) << "there is nobody to tell";
  const auto actions = s.on_start(1);
  EXPECT_TRUE(actions.submit && actions.cancel);
  EXPECT_TRUE(s.on_scheduler_restarted(its_model, 2).cancel) << "each scheduler is told";
}

TEST(session_state, a_grant_before_the_start_is_part_of_the_submission) {
  auto s = made(10);
  EXPECT_EQ(s.on_grant(5), nothing);
  EXPECT_TRUE(s.on_start(1).submit);
  EXPECT_EQ(s.credit(), 15U);
  EXPECT_EQ(s.on_grant(5).credit, 20U) << "all that it may commit, so that the message may be repeated";
}

TEST(session_state, news_of_a_restarted_scheduler_before_the_start_are_newer) {
  auto s = made();
  EXPECT_EQ(s.on_scheduler_restarted(its_model, 2), nothing);
  EXPECT_TRUE(s.on_start(1).submit);
  EXPECT_EQ(s.scheduler(), 2);
}

TEST(session_state, submits_again_to_another_scheduler_of_its_model_only) {
  auto s = started();
  EXPECT_EQ(s.on_scheduler_restarted(other_model, 2), nothing);
  EXPECT_EQ(s.on_scheduler_restarted(its_model, 1), nothing) << "the one it has submitted to";
  const auto actions = s.on_scheduler_restarted(its_model, 3);
  EXPECT_TRUE(actions.submit);
  EXPECT_FALSE(actions.cancel);
  EXPECT_EQ(s.scheduler(), 3);
}

TEST(session_state, output_reported_again_is_dropped) {
  auto s = started();
  EXPECT_TRUE(s.on_event(tokens(0, 3)).deliver);
  EXPECT_TRUE(s.on_event(tokens(3, 2)).deliver);
  EXPECT_EQ(s.on_event(tokens(0, 3)), nothing);
  EXPECT_EQ(s.on_event(tokens(3, 2)), nothing);
  EXPECT_TRUE(s.on_event(tokens(5, 1)).deliver);
  EXPECT_TRUE(s.on_event(tokens(6, 0)).deliver) << "news without tokens";
}

TEST(session_state, the_last_event_comes_once_even_if_its_tokens_are_known) {
  auto s = started();
  s.on_event(tokens(0, 3));
  const auto actions = s.on_event(tokens(0, 3, finish_reason::length));
  EXPECT_TRUE(actions.deliver && actions.over);
  EXPECT_FALSE(actions.last);
  EXPECT_EQ(s.on_event(tokens(3, 0, finish_reason::cancelled)), nothing);
  EXPECT_EQ(s.on_shutdown(), nothing);
  EXPECT_EQ(s.on_crash(), nothing);
  EXPECT_EQ(s.on_cancel(), nothing);
  EXPECT_EQ(s.on_grant(1), nothing);
  EXPECT_EQ(s.on_scheduler_restarted(its_model, 9), nothing);
}

TEST(session_state, a_client_without_credit_of_its_own_is_repaid_by_the_half_window) {
  auto s = started(8, 8);
  EXPECT_EQ(s.on_event(tokens(0, 3)).credit, std::nullopt);
  EXPECT_EQ(s.on_event(tokens(3, 1)).credit, 12U);
  EXPECT_EQ(s.on_event(tokens(4, 3)).credit, std::nullopt);
  EXPECT_EQ(s.on_event(tokens(7, 5)).credit, 20U);
  EXPECT_EQ(s.on_event(tokens(12, 4, finish_reason::length)).credit, std::nullopt) << "nothing comes after";
}

TEST(session_state, a_client_with_credit_of_its_own_is_repaid_nothing) {
  auto s = started(8, 0);
  EXPECT_EQ(s.on_event(tokens(0, 8)).credit, std::nullopt);
}

TEST(session_state, ends_for_lost_events_only_if_it_may_have_missed_some) {
  EXPECT_EQ(made().on_events_lost(), nothing);
  const auto actions = started().on_events_lost();
  ASSERT_TRUE(actions.last);
  EXPECT_TRUE(actions.cancel && actions.over);
  EXPECT_EQ(actions.last->finish, finish_reason::error);
  EXPECT_EQ(actions.last->failure->code(), errc::device_lost);
}

/// The message about fan_out's restart and events through the new fan_out come from different actors.
TEST(session_state, ends_at_a_hole_even_before_it_hears_of_lost_events) {
  for (const auto finish : {finish_reason::none, finish_reason::length}) {
    auto s = started();
    s.on_event(tokens(0, 3));
    const auto actions = s.on_event(tokens(5, 2, finish));
    EXPECT_FALSE(actions.deliver);
    ASSERT_TRUE(actions.last);
    EXPECT_TRUE(actions.cancel && actions.over);
    EXPECT_EQ(actions.last->failure->code(), errc::device_lost);
    EXPECT_EQ(s.on_events_lost(), nothing) << "the news comes";
  }
}

TEST(session_state, ends_when_its_own_model_goes_out_of_service) {
  const error why{errc::out_of_service, "kv_pool"};
  auto s = made();
  EXPECT_EQ(s.on_out_of_service(other_model, why), nothing);
  const auto actions = s.on_out_of_service(its_model, why);
  EXPECT_TRUE(actions.last && actions.over);
  EXPECT_FALSE(actions.cancel) << "nothing was submitted";
  EXPECT_EQ(actions.last->failure, why);
  EXPECT_EQ(s.on_start(1), nothing) << "the start comes late";
  EXPECT_TRUE(started().on_out_of_service(its_model, why).cancel);
}

TEST(session_state, a_crash_or_the_engines_end_is_an_end) {
  EXPECT_EQ(made().on_shutdown().last->finish, finish_reason::cancelled);
  EXPECT_FALSE(started().on_shutdown().cancel) << "the scheduler ends, too";
  const auto crash = started().on_crash();
  EXPECT_TRUE(crash.cancel && crash.over);
  EXPECT_EQ(crash.last->failure->code(), errc::device_lost);
  EXPECT_FALSE(made().on_crash().cancel);
}

/// A session to which messages come in random order.
class random_session {
 public:
  explicit random_session(std::uint32_t seed)
      : random_(seed), window_(random_() % 2 == 0 ? 0 : 8), session_(made(granted_, window_)) {}

  void take_a_message() {
    event_ = {};
    expect_promises(next_actions());
  }

 private:
  session_actions next_actions() {
    switch (random_() % 12) {
    case 0:
      was_started_ = true;
      return session_.on_start(1 + static_cast<int>(random_() % 3));
    case 1: {
      const auto model = random_() % 4 == 0 ? other_model : its_model;
      return session_.on_scheduler_restarted(model, 4 + static_cast<int>(random_() % 3));
    }
    case 2:
      was_cancelled_ = true;
      return session_.on_cancel();
    case 3:
      granted_ += 3;
      return session_.on_grant(3);
    case 4:
      return session_.on_out_of_service(random_() % 20 == 0 ? its_model : other_model,
                                        error{errc::out_of_service, "gone"});
    case 5:
      return random_() % 20 == 0 ? session_.on_events_lost() : session_actions();
    case 6:
      if (random_() % 20 != 0) return {};
      return random_() % 2 == 0 ? session_.on_crash() : session_.on_shutdown();
    default:
      return was_started_ ? take_tokens() : session_actions();
    }
  }

  /// What a scheduler reports: the next tokens, or ones reported before.
  session_actions take_tokens() {
    const auto num = 1 + random_() % 4;
    const bool again = random_() % 3 == 0 && written_ > 0;
    event_ = again ? tokens(0, 1 + static_cast<std::uint32_t>(random_() % written_))
                   : tokens(written_, num, random_() % 30 == 0 ? finish_reason::stop : finish_reason::none);
    if (!again) written_ += num;
    auto actions = session_.on_event(event_);
    if (num_ends_ == 0) {
      EXPECT_EQ(actions.deliver, event_.first_index + event_.tokens.size() > delivered_);
    }
    return actions;
  }

  void expect_promises(const session_actions& actions) {
    if (num_ends_ > 0) {
      EXPECT_EQ(actions, nothing);
    }
    if (!was_started_) {
      EXPECT_FALSE(actions.submit || actions.cancel || actions.credit);
    }
    if (actions.deliver) {
      EXPECT_EQ(event_.first_index, delivered_);
      delivered_ += static_cast<std::uint32_t>(event_.tokens.size());
    }
    if (actions.submit) {
      EXPECT_TRUE(submitted_.empty() || submitted_.back() != session_.scheduler()) << "submitted twice";
      submitted_.push_back(session_.scheduler());
      EXPECT_EQ(actions.cancel, was_cancelled_);
    }
    if (window_ == 0) {
      EXPECT_EQ(session_.credit(), granted_);
    }
    num_ends_ += actions.over;
    EXPECT_LE(num_ends_, 1U);
  }

  std::mt19937 random_;
  std::uint32_t window_;
  std::uint64_t granted_ = 8;
  state session_;
  token_event event_; ///< the message's, if it is one
  std::vector<int> submitted_;
  std::uint32_t delivered_ = 0, written_ = 0, num_ends_ = 0;
  bool was_started_ = false, was_cancelled_ = false;
};

/// Messages come in any order. There is one submission to each scheduler, output without gaps, and one end.
TEST(session_state, every_order_of_messages_keeps_the_promises) {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_session session(seed);
    for (int i = 0; i < 60; ++i) session.take_a_message();
  }
}

} // namespace
} // namespace paceline::actors
