// Leases in the pools of drafters that draft on streams of their own: how far they reach, when rounds use
// them, and when they are returned.
#include "tests/runtime/scheduling/decided.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace paceline::scheduling {
namespace {

using namespace test_support;

constexpr drafter_index first_drafter{1}, second_drafter{2}, automatic{3};
constexpr pool_number first_pool{1}, second_pool{2};

/// Options in which two workers have pools of their own and draft three levels.
scheduler_options with_two_workers() {
  auto options = small_options();
  options.drafters = {{"none", 0, {}, false},
                      {"first", 3, first_pool, true},
                      {"second", 3, second_pool, true},
                      {"auto", 3, {}, false}};
  return options;
}

/// A scheduler with one request at a time. Its rounds return when told; pools answer at once.
class driven_request {
 public:
  explicit driven_request(scheduler_options options) : state(std::move(options)) {}

  struct asked_item {
    plan_item item;
    std::uint32_t length = 0; ///< cells of its text, as reported when the item was planned
  };

  void begin(std::uint32_t prompt_length, std::uint32_t max_tokens, drafter_index drafter = first_drafter,
             std::uint64_t credit = 1000, std::uint32_t width = 0) {
    generation_request request;
    request.prompt.assign(prompt_length, token_id{1});
    request.stop.max_tokens = max_tokens;
    request.beams.width = width;
    width_ = width;
    prompt_length_ = length = prompt_length;
    num_steps_ = max_tokens;
    id_ = request_id{id_.value + 1};
    take(state.submit(admitted(id_, std::move(request)), drafter, credit, now));
  }
  /// Reports the oldest round in flight, with so many draft tokens accepted.
  void report(std::uint32_t num_accepted = 0) {
    ASSERT_FALSE(in_flight.empty());
    const auto plan = std::move(in_flight.front());
    in_flight.pop_front();
    now += std::chrono::milliseconds(1);
    auto result = done(plan, plan.items.at(0).max_rows, 0);
    result.submissions = {plan.round.value, plan.round.value, plan.round.value};
    result.failed_drafters = std::exchange(failing, {});
    auto& made = result.items.at(0);
    const auto num = std::min(1 + std::min(num_accepted, plan.items[0].draft_length), num_steps_);
    num_steps_ -= num;
    length += num * std::max(1U, width_);
    made.num_cells = width_ != 0 ? length : 0;
    made.length = width_ != 0 ? prompt_length_ : length;
    made.kv_length = made.length - 1;
    made.committed.assign(width_ != 0 ? 0 : num, token_id{7});
    made.advice = advice;
    if (num_steps_ == 0) made.finish = finish_reason::length;
    take(state.on_round_done(result, now));
    ASSERT_EQ(state.check_invariants(), "");
  }
  void report_all(std::uint32_t num_accepted = 0) {
    while (!in_flight.empty()) report(num_accepted);
  }
  void take(decisions d) {
    for (auto& plan : d.rounds) {
      planned.push_back({plan.items.at(0), length});
      in_flight.push_back(std::move(plan));
    }
    std::vector<lease_event> answers;
    for (const auto& command : d.pool) {
      if (const auto* gone = std::get_if<release_command>(&command)) released.push_back(*gone);
      if (const auto* asked = std::get_if<acquire_command>(&command)) answers.push_back(answer(*asked));
      if (const auto* asked = std::get_if<reserve_command>(&command)) answers.push_back(answer(*asked));
      if (const auto* asked = std::get_if<acquire_for_drafter_command>(&command))
        answers.push_back(answer(*asked));
    }
    if (!answers_drafters)
      for (const auto& one : answers)
        if (one.pool != target_pool) late_answers.push_back(one);
    if (!answers_drafters) std::erase_if(answers, [](const auto& one) { return one.pool != target_pool; });
    if (!answers.empty()) take(state.on_leases(answers, false, now));
  }
  void cancel() { take(state.cancel(id_, now)); }
  void lose(drafter_index drafter) { take(state.on_worker_lost(drafter, now)); }

  std::ptrdiff_t num_released(pool_number pool) const {
    return std::ranges::count(released, pool, &release_command::pool);
  }
  /// Items that ask a worker.
  std::vector<asked_item> drafted() const {
    auto found = planned;
    std::erase_if(found, [](const auto& one) { return !one.item.worker; });
    return found;
  }

  scheduler_state state;
  time_point now = start;
  std::deque<round_plan> in_flight;
  std::vector<asked_item> planned;
  std::uint32_t length = 0;
  std::uint32_t most_blocks = 100; ///< that drafters' pools give
  bool answers_drafters = true;    ///< drafters' pools answer
  std::vector<lease_event> late_answers;
  std::vector<release_command> released;
  /// Positions that pools were asked for, and the length of the text then.
  std::map<pool_number, std::vector<std::pair<std::uint32_t, std::uint32_t>>> asked;
  worker_advice advice;                ///< of all rounds
  std::vector<failed_drafter> failing; ///< of the next round

 private:
  template <class Question>
  lease_event answer(const Question& question) {
    asked[question.pool].emplace_back(question.num_positions, length);
    const auto num_blocks = (question.num_positions + 3) / 4;
    if (question.pool == target_pool || num_blocks <= most_blocks)
      return grant(question.request, question.pool, question.ticket, num_blocks);
    if constexpr (std::same_as<Question, acquire_for_drafter_command>)
      return grant(question.request, question.pool, question.ticket, most_blocks);
    return {question.request, question.pool, question.ticket, false, {}, 0, {}};
  }

  request_id id_;
  std::uint32_t width_ = 0, prompt_length_ = 0;
  std::uint32_t num_steps_ = 0; ///< tokens that it may still commit
};

/// A drafter whose model has a shorter context than the target.
scheduler_options with_short_context() {
  auto options = small_options();
  options.drafters[1].max_text = 20;
  return options;
}

TEST(drafter_leases, end_with_the_drafters_own_context) {
  driven_request driven(with_short_context());
  driven.begin(8, 40);
  driven.report_all(3);
  EXPECT_EQ(driven.length, 48U);
  const auto drafted = driven.drafted();
  ASSERT_FALSE(drafted.empty());
  EXPECT_GE(drafted.back().length, 12U);
  EXPECT_LT(drafted.back().length, 20U) << "a round waits for a draft program that drafts nothing";
  for (const auto& [positions, length] : driven.asked[first_pool])
    EXPECT_LE(positions, 20U + 3) << "its text, and a draft behind it";
  EXPECT_EQ(driven.planned.back().item.draft_length, 0U);
  for (const auto& [positions, length] : driven.asked[target_pool])
    if (length >= 28) {
      EXPECT_LE(positions, length + 4) << "look-ahead for drafts that nobody makes";
    }
}

TEST(drafter_leases, are_not_asked_for_by_texts_beyond_the_drafters_own_context) {
  for (const std::uint32_t width : {0U, 2U}) {
    driven_request driven(with_short_context());
    driven.begin(24, 10, first_drafter, 1000, width);
    driven.report_all();
    EXPECT_TRUE(driven.drafted().empty()) << width;
    EXPECT_TRUE(driven.asked[first_pool].empty()) << width;
    EXPECT_FALSE(driven.planned.empty());
  }
}

TEST(drafter_leases, of_a_block_are_used_where_the_block_has_room) {
  constexpr std::uint32_t block = 6;
  for (const std::uint32_t width : {0U, 2U})
    for (const std::uint32_t max_tokens : {6U, 20U}) { // the text fits the lease to its end, or does not
      auto options = small_options();
      options.drafters[1].block_positions = block;
      options.drafters[1].own_positions = [](std::uint32_t) { return block; };
      driven_request driven(options);
      driven.most_blocks = 4;
      driven.begin(width == 0 ? 8 : 4, max_tokens, first_drafter, 1000, width);
      driven.report_all();
      const auto drafted = driven.drafted();
      ASSERT_FALSE(drafted.empty()) << width << ", " << max_tokens;
      for (const auto& one : drafted)
        EXPECT_LE(one.length + block, 4 * 4U) << width << ", " << max_tokens << ": it can draft nothing";
    }
}

TEST(drafter_leases, of_a_block_are_used_to_the_end_where_the_block_fits_behind_the_last_token) {
  constexpr std::uint32_t block = 6;
  auto options = small_options();
  options.drafters[1].block_positions = block;
  options.drafters[1].own_positions = [](std::uint32_t) { return block; };
  driven_request driven(options);
  driven.begin(8, 10);
  driven.report_all();
  const auto asks = [](const auto& one) { return one.item.worker.has_value(); };
  const auto first = std::ranges::find_if(driven.planned, asks);
  EXPECT_TRUE(std::all_of(first, driven.planned.end(), asks));
  EXPECT_GE(driven.planned.end() - first, 6);
}

TEST(drafter_leases, have_blocks_for_drafts_in_advance_if_the_drafter_makes_them) {
  for (const bool in_advance : {true, false}) {
    auto options = small_options();
    options.overlap = {ahead_mode::outcomes};
    options.drafters[1].drafts_in_advance = in_advance;
    driven_request driven(options);
    driven.begin(8, 20);
    driven.report_all();
    const auto drafted = driven.drafted();
    ASSERT_FALSE(drafted.empty());
    for (const auto& one : drafted) {
      EXPECT_EQ(one.item.ahead, in_advance ? ahead_mode::outcomes : ahead_mode::off);
      EXPECT_EQ(one.item.num_spare_blocks > 0, in_advance);
    }
    const auto needed = driven.asked[first_pool].front().first;
    EXPECT_EQ(needed > 8 + 1 + 4 + 4, in_advance) << needed;
  }
}

TEST(drafter_leases, modes_are_compared_by_rounds_in_which_they_differ) {
  for (const bool in_advance : {true, false}) {
    auto options = with_two_workers();
    options.overlap = {ahead_mode::off, ahead_mode::ahead};
    options.drafters[first_drafter.value].drafts_in_advance = in_advance;
    driven_request driven(options);
    driven.begin(8, 26, first_drafter); // more rounds than a trial, fewer than two
    driven.report_all();
    driven.planned.clear();
    driven.begin(8, 10, second_drafter);
    driven.report_all();
    ASSERT_FALSE(driven.drafted().empty());
    EXPECT_EQ(driven.drafted().front().item.ahead, in_advance ? ahead_mode::ahead : ahead_mode::off)
        << "the second mode is on trial only if the first one was tried";
  }
}

TEST(lost_worker, returns_leases_behind_the_last_round_that_uses_them) {
  driven_request driven(small_options());
  driven.begin(8, 40);
  driven.report();
  driven.report();
  ASSERT_EQ(driven.in_flight.size(), 2U);
  for (const auto& plan : driven.in_flight) ASSERT_EQ(plan.items.at(0).worker, first_drafter);
  const auto last = driven.in_flight.back().round.value;
  driven.lose(first_drafter);
  driven.report();
  EXPECT_EQ(driven.num_released(first_pool), 0) << "a round in flight uses it";
  driven.report();
  ASSERT_EQ(driven.num_released(first_pool), 1) << "while the request goes on";
  EXPECT_EQ(driven.released.front().after, last);
  driven.report_all();
  EXPECT_EQ(driven.length, 48U);
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_EQ(driven.num_released(target_pool), 1);
}

TEST(lost_worker, returns_leases_at_once_that_no_round_uses) {
  driven_request driven(small_options());
  driven.begin(8, 40, first_drafter, 2); // its client reads two tokens
  driven.report_all();
  ASSERT_FALSE(driven.asked[first_pool].empty());
  driven.lose(first_drafter);
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_EQ(driven.state.check_invariants(), "");
}

TEST(lost_worker, returns_a_lease_that_its_pool_is_about_to_give) {
  driven_request driven(small_options());
  driven.answers_drafters = false;
  driven.begin(8, 40);
  ASSERT_EQ(driven.late_answers.size(), 1U);
  driven.lose(first_drafter);
  EXPECT_EQ(driven.num_released(first_pool), 1) << "behind the question";
  driven.take(driven.state.on_leases(driven.late_answers, false, driven.now));
  EXPECT_EQ(driven.state.check_invariants(), "");
  driven.report_all();
  EXPECT_TRUE(driven.drafted().empty());
  EXPECT_EQ(driven.num_released(first_pool), 1);
}

TEST(lost_worker, does_not_keep_a_request_that_has_ended) {
  driven_request driven(small_options());
  driven.answers_drafters = false;
  driven.begin(8, 40);
  driven.cancel();
  driven.report_all();
  ASSERT_EQ(driven.num_released(target_pool), 0) << "it waits for the drafter's pool";
  driven.lose(first_drafter);
  EXPECT_EQ(driven.num_released(target_pool), 1);
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_FALSE(driven.state.active());
}

TEST(lost_worker, of_auto_is_followed_by_one_that_is_advised) {
  driven_request driven(with_two_workers());
  driven.advice = {first_drafter, 3};
  driven.begin(8, 40, automatic);
  for (int i = 0; i < 4; ++i) driven.report();
  ASSERT_EQ(driven.planned.back().item.worker, first_drafter);
  driven.lose(first_drafter);
  driven.advice = {second_drafter, 3};
  for (int i = 0; i < 4; ++i) driven.report();
  EXPECT_EQ(driven.planned.back().item.worker, second_drafter);
  EXPECT_EQ(driven.num_released(first_pool), 1);
  driven.report_all();
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_EQ(driven.num_released(second_pool), 1);
}

TEST(resting_worker, of_auto_is_followed_by_one_that_is_advised) {
  driven_request driven(with_two_workers());
  driven.advice = {first_drafter, 3};
  driven.begin(8, 40, automatic);
  for (int i = 0; i < 4; ++i) driven.report();
  ASSERT_EQ(driven.planned.back().item.worker, first_drafter);
  driven.failing = {{first_drafter, error{errc::internal, "it is broken"}}};
  for (int i = 0; i < 4; ++i) driven.report();
  EXPECT_EQ(driven.num_released(first_pool), 0) << "it may come back, and no other one is advised";
  EXPECT_EQ(driven.in_flight.back().resting_workers, std::vector{first_drafter});
  driven.advice = {second_drafter, 3};
  for (int i = 0; i < 4; ++i) driven.report();
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_EQ(driven.planned.back().item.worker, second_drafter);
}

/// The other worker reads the request's text first, so a single advice is not followed.
TEST(worker_of_auto, is_followed_by_another_one_that_is_advised_for_a_while) {
  driven_request driven(with_two_workers());
  driven.advice = {first_drafter, 3};
  driven.begin(8, 60, automatic);
  for (int i = 0; i < 4; ++i) driven.report();
  ASSERT_EQ(driven.planned.back().item.worker, first_drafter);
  driven.advice = {second_drafter, 3};
  driven.report();
  driven.advice = {first_drafter, 3};
  for (int i = 0; i < 4; ++i) driven.report();
  EXPECT_EQ(driven.num_released(first_pool), 0);
  EXPECT_EQ(driven.planned.back().item.worker, first_drafter);
  driven.advice = {second_drafter, 3};
  for (int i = 0; i < 8; ++i) driven.report();
  EXPECT_EQ(driven.num_released(first_pool), 1);
  EXPECT_EQ(driven.planned.back().item.worker, second_drafter);
}

} // namespace
} // namespace paceline::scheduling
