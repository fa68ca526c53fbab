// The sessions of drafters for requests and hypotheses: who gets which session, and when its end is reported.
#include "runtime/rounds/draft_sessions.hpp"

#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/hypothesis_sessions.hpp"
#include "runtime/rounds/request_progress.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace paceline::rounds {

using namespace scheduling;
namespace {

using text = std::vector<token_id>;

text tokens(std::initializer_list<int> ids) {
  text out;
  for (const auto id : ids) out.emplace_back(id);
  return out;
}

/// Records which of its sessions are open, and what the others were told at their end.
class remembering_drafter final : public speculation::drafter {
 public:
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    ++num_open;
    return std::make_unique<session>(*this);
  }
  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task>) override {}

  int num_open = 0;
  std::vector<text> ended;

 private:
  struct session final : speculation::drafter_session {
    explicit session(remembering_drafter& to) : owner(&to) {}
    ~session() override { --owner->num_open; }
    void end(const speculation::ended_request& request) noexcept override {
      owner->ended.emplace_back(request.tokens.begin(), request.tokens.end());
    }
    remembering_drafter* owner;
  };
  speculation::drafter_traits traits_;
};

admitted_request request_number(std::uint64_t id) {
  generation_request request;
  request.prompt.assign(2, token_id{static_cast<std::int32_t>(id)});
  request.stop.max_tokens = 8;
  return admit(request_id{id}, std::move(request), 64, nullptr, time_point{std::chrono::hours(1)});
}

TEST(draft_sessions_test, a_request_keeps_its_session) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  const auto one = request_number(1), other = request_number(2);
  auto* session = sessions.session(one.log);
  EXPECT_NE(sessions.session(other.log), session);
  EXPECT_EQ(sessions.session(one.log), session);
  EXPECT_EQ(drafter.num_open, 2);
}

TEST(draft_sessions_test, sessions_of_requests_that_are_over_are_told_their_tokens_and_dropped) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  auto one = request_number(1), other = request_number(2);
  sessions.session(one.log), sessions.session(other.log);
  one.progress->begin_round(time_point{});
  one.progress->commit(token_id{7}, std::nullopt);
  sessions.drop_ended();
  EXPECT_EQ(drafter.num_open, 2) << "others still hold both";
  one = {};
  sessions.drop_ended();
  EXPECT_EQ(drafter.ended, std::vector<text>{tokens({1, 1, 7})});
  EXPECT_EQ(drafter.num_open, 1);
  EXPECT_EQ(sessions.size(), 1U);
}

TEST(draft_sessions_test, all_are_dropped_at_once_and_only_those_of_ended_requests_are_told_so) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  auto one = request_number(1), other = request_number(2);
  sessions.session(one.log), sessions.session(other.log);
  one = {};
  sessions.drop_all();
  EXPECT_EQ(drafter.num_open, 0);
  EXPECT_EQ(sessions.size(), 0U);
  EXPECT_EQ(drafter.ended, std::vector<text>{tokens({1, 1})}) << "the other one's tokens are being written";
  EXPECT_EQ(other.log.use_count(), 2) << "of the test and of the request's progress";
}

TEST(draft_sessions_test, a_session_that_is_reset_starts_over_but_its_place_is_kept) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  const auto one = request_number(1);
  sessions.session(one.log);
  sessions.of(one.log).drafted_at = 5;
  sessions.reset(one.id());
  EXPECT_EQ(drafter.num_open, 0);
  EXPECT_NE(sessions.session(one.log), nullptr);
  EXPECT_EQ(sessions.of(one.log).drafted_at, 0U) << "it reads its text again";
  EXPECT_EQ(sessions.size(), 1U);
}

TEST(draft_sessions_test, a_session_is_found_in_its_lease_until_it_is_reset) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  const auto one = request_number(1);
  EXPECT_EQ(sessions.find(one.id(), 3), nullptr);
  auto* session = sessions.session(one.log);
  sessions.of(one.log).lease = 3;
  EXPECT_EQ(sessions.find(one.id(), 3), session);
  EXPECT_EQ(sessions.find(one.id(), 4), nullptr) << "its cells lie elsewhere";
  sessions.reset(one.id());
  EXPECT_EQ(sessions.find(one.id(), 3), nullptr);
  sessions.session(one.log);
  EXPECT_EQ(sessions.find(one.id(), 3), nullptr) << "it has not entered the lease";
}

TEST(draft_sessions_test, an_adopted_session_takes_the_place_of_the_other) {
  remembering_drafter drafter;
  draft_sessions sessions(drafter);
  const auto one = request_number(1);
  sessions.session(one.log);
  auto clone = drafter.open(one.id());
  auto* adopted = clone.get();
  sessions.adopt(one.log, std::move(clone));
  EXPECT_EQ(sessions.session(one.log), adopted);
  EXPECT_EQ(drafter.num_open, 1);
}

TEST(hypothesis_sessions_test, a_hypothesis_gets_the_session_that_followed_the_most_of_it) {
  remembering_drafter drafter;
  hypothesis_sessions sessions;
  const std::vector first{tokens({1}), tokens({1, 2})};
  const auto before = sessions.follow(first, drafter, request_id{1});
  const std::vector next{tokens({1, 2, 3}), tokens({1, 4})};
  const auto after = sessions.follow(next, drafter, request_id{1});
  EXPECT_EQ(after, (std::vector{before[1], before[0]}));
  EXPECT_EQ(drafter.num_open, 2);
}

TEST(hypothesis_sessions_test, hypotheses_of_one_parent_get_different_sessions) {
  remembering_drafter drafter;
  hypothesis_sessions sessions;
  const auto before = sessions.follow(std::vector<text>{tokens({1})}, drafter, request_id{1});
  const auto after =
      sessions.follow(std::vector<text>{tokens({1, 2}), tokens({1, 3})}, drafter, request_id{1});
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[0]);
}

TEST(hypothesis_sessions_test, a_session_whose_text_no_hypothesis_goes_on_with_is_dropped) {
  remembering_drafter drafter;
  hypothesis_sessions sessions;
  sessions.follow(std::vector<text>{tokens({1, 2}), tokens({3})}, drafter, request_id{1});
  sessions.follow(std::vector<text>{tokens({3, 4})}, drafter, request_id{1});
  EXPECT_EQ(drafter.num_open, 1);
}

} // namespace
} // namespace paceline::rounds
