// The outcomes of a round: failures of the model, and drafts beyond the end of a request.
#include "tests/runtime/rounds/rounds.hpp"

#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace paceline::rounds::round_outcomes_test {

using namespace scheduling;
namespace {

using namespace test_support;

constexpr std::uint32_t prompt_length = 6;

generation_request greedy_request() {
  generation_request r;
  for (std::uint32_t i = 0; i < prompt_length; ++i) r.prompt.emplace_back(static_cast<std::int32_t>(i * 7));
  r.stop.max_tokens = 24;
  r.stop.ignore_eos = true;
  r.sampling.temperature = 0;
  return r;
}

/// The target's token after `context`.
token_id best_after(const model::hash_model& target, std::span<const token_id> context) {
  const auto logits = target.logits_after(context);
  return token_id{static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

/// Runs one request with a drafter that is always right.
std::unique_ptr<lone_rounds> always_right() {
  auto oracle = std::make_shared<model::hash_model>(test::small_target(128));
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(test::make_scripted_drafter(
      "right", test::own_sample([oracle](std::span<const token_id> c) { return oracle->logits_after(c); })));
  return std::make_unique<lone_rounds>(
      test::small_target(128), [](std::size_t rows) { return std::chrono::microseconds(100 + rows); },
      std::move(drafters));
}

class a_row_without_a_finite_logit : public testing::TestWithParam<std::uint32_t> {};

TEST_P(a_row_without_a_finite_logit, fails_the_request_by_name) {
  auto device = always_right();
  device->submit(greedy_request(), drafter_index{1}, GetParam());
  device->spoil_rows_at(token_position{prompt_length + 8});
  device->run();
  const auto& last = device->events.back();
  EXPECT_EQ(last.finish, finish_reason::error);
  ASSERT_TRUE(last.failure);
  EXPECT_NE(last.failure->message().find("finite"), std::string::npos) << last.failure->message();
  for (const auto& event : device->events)
    for (std::size_t i = 0; i < event.tokens.size(); ++i)
      EXPECT_LE(event.first_index + i, 8U) << "a token that no row decided was told";
}

INSTANTIATE_TEST_SUITE_P(with_drafts, a_row_without_a_finite_logit, testing::Values(0U, 3U, 5U));

TEST(round_outcomes, drafts_behind_a_stop_are_not_accepted) {
  auto request = greedy_request();
  const model::hash_model target(test::small_target(128));
  auto text = request.prompt;
  for (int i = 0; i < 8; ++i) text.push_back(best_after(target, text));
  request.stop.stop_ids = {text.back()}; // the eighth token ends it, within a draft of five
  const auto first = std::ranges::find(text.begin() + prompt_length, text.end(), text.back());
  const auto num_output = static_cast<std::uint32_t>(first - text.begin()) + 1 - prompt_length;
  request.trace = true;

  auto device = always_right();
  device->submit(request, drafter_index{1}, 5);
  device->run();
  const auto& last = device->events.back();
  ASSERT_EQ(last.finish, finish_reason::stop);
  ASSERT_TRUE(last.speculation && last.trace);
  EXPECT_EQ(device->request(0).output_length(), num_output);
  std::uint32_t num_told = 0, num_accepted = 0;
  for (const auto& event : device->events) {
    num_told += static_cast<std::uint32_t>(event.tokens.size());
    if (event.trace) num_accepted += static_cast<std::uint32_t>(event.trace->accepted.size());
  }
  EXPECT_EQ(num_told, num_output);
  EXPECT_EQ(last.speculation->num_accepted_tokens, num_accepted);
  EXPECT_EQ(last.tokens.size(), last.trace->accepted.size()) << "the last round committed drafts only";
  EXPECT_FALSE(last.trace->bonus);
}

/// Always right, but throws when `breaks` says so.
class breaking_drafter final : public speculation::drafter {
 public:
  breaking_drafter(std::unique_ptr<speculation::drafter> inner, std::function<bool()> breaks)
      : inner_(std::move(inner)), breaks_(std::move(breaks)) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id request) override {
    return inner_->open(request);
  }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    if (breaks_()) throw std::runtime_error("out of luck");
    inner_->propose(ops, kv, tasks);
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  std::function<bool()> breaks_;
};

/// Passes take 100 ms, so that a rest of a second is ten rounds.
lone_rounds with_breaking_drafter(std::function<bool()> breaks) {
  auto oracle = std::make_shared<model::hash_model>(test::small_target(128));
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(std::make_unique<breaking_drafter>(
      test::make_scripted_drafter("right", test::own_sample([oracle](std::span<const token_id> c) {
                                    return oracle->logits_after(c);
                                  })),
      std::move(breaks)));
  return lone_rounds(
      test::small_target(128), [](std::size_t) { return std::chrono::milliseconds(100); },
      std::move(drafters));
}

/// True so often, then false.
std::function<bool()> true_for(int times) {
  return [times]() mutable { return times-- > 0; };
}

class an_in_line_drafter_that_fails : public testing::TestWithParam<bool> {};

TEST_P(an_in_line_drafter_that_fails, costs_nobody_a_token_and_is_asked_again_after_a_rest) {
  auto device = with_breaking_drafter(true_for(1));
  for (const drafter_index drafter : {drafter_index{1}, plain_decoding}) {
    auto request = greedy_request();
    request.stop.max_tokens = 40;
    device.submit(std::move(request), drafter != plain_decoding && GetParam() ? device.automatic() : drafter,
                  2);
  }
  device.run();
  EXPECT_EQ(device.num_failed_drafts, 1U);
  EXPECT_EQ(device.num_wrong, 0U);
  EXPECT_GT(device.num_accepted, 0U) << "it was asked again";
  for (std::size_t i = 0; i < 2; ++i) {
    const auto tokens = device.request(i).tokens();
    ASSERT_EQ(tokens.size(), prompt_length + 40U);
    EXPECT_EQ(tokens.back(), best_after(device.target(), tokens.first(tokens.size() - 1)));
  }
}

TEST_P(an_in_line_drafter_that_fails, for_good_is_asked_ever_more_rarely) {
  auto device = with_breaking_drafter(true_for(1000));
  auto request = greedy_request();
  request.stop.max_tokens = 80; // eight seconds
  device.submit(std::move(request), GetParam() ? device.automatic() : drafter_index{1}, 2);
  device.run();
  EXPECT_EQ(device.num_failed_drafts, 4U) << "at 0, 1, 3 and 7 seconds";
  EXPECT_EQ(device.request(0).output_length(), 80U);
}

TEST(in_line_drafter, that_has_drafted_since_it_failed_rests_as_short_as_at_first) {
  auto device = with_breaking_drafter([fails = false]() mutable { return fails = !fails; });
  auto request = greedy_request();
  request.stop.max_tokens = 80;
  device.submit(std::move(request), drafter_index{1}, 2);
  device.run();
  EXPECT_GE(device.num_failed_drafts, 6U) << "of seven seconds in every one";
}

INSTANTIATE_TEST_SUITE_P(alone_and_of_auto, an_in_line_drafter_that_fails, testing::Bool());

/// A text whose tokens take time.
class slow_text final : public text_output {
 public:
  explicit slow_text(test::virtual_clock& time) : time_(&time) {}
  piece feed(token_id, bool) override {
    time_->spend(std::chrono::milliseconds(1));
    return {};
  }
  std::string finish() override { return {}; }
  std::unique_ptr<text_output> clone() const override { return std::make_unique<slow_text>(*this); }

 private:
  test::virtual_clock* time_;
};

TEST(a_round, commits_for_all_its_requests_at_its_end) {
  lone_rounds device(test::small_target(128), [](std::size_t) { return std::chrono::milliseconds(10); }, {});
  for (int i = 0; i < 2; ++i)
    device.submit(greedy_request(), plain_decoding, 0, std::make_unique<slow_text>(device.time()));
  device.run();
  ASSERT_EQ(device.events.size(), 48U);
  for (std::size_t i = 0; i < device.events.size(); i += 2)
    EXPECT_EQ(device.events[i].committed_at, device.events[i + 1].committed_at);
}

TEST(round_outcomes, the_report_names_the_drafter_and_counts_the_rounds_that_had_room) {
  auto device = always_right();
  device->submit(greedy_request(), drafter_index{1}, 5); // 24 tokens: one with the prompt, then 6, 6, 6 and 5
  device->submit(greedy_request(), plain_decoding, 0);
  device->submit(greedy_request(), device->automatic(), 5);
  device->run();
  std::vector<const speculation_stats*> reports(3);
  for (const auto& event : device->events)
    if (event.speculation) reports[event.request.value - 1] = &*event.speculation;
  const auto &right = *reports[0], &none = *reports[1], &automatic = *reports[2];
  EXPECT_EQ(right.drafter, "right");
  EXPECT_EQ(right.num_open_rounds, 4U);
  EXPECT_FALSE(right.weighed);
  EXPECT_EQ(none.drafter, "");
  EXPECT_EQ(none.num_open_rounds, 0U);
  EXPECT_EQ(automatic.drafter, "auto");
  ASSERT_TRUE(automatic.weighed);
  const auto& account = *automatic.weighed;
  EXPECT_EQ(account.num_rounds, automatic.num_open_rounds);
  EXPECT_EQ(account.num_without_proposal, 0U);
  ASSERT_EQ(account.candidates.size(), 1U);
  EXPECT_EQ(account.candidates[0].drafter, "right");
  EXPECT_EQ(account.candidates[0].num_proposals, account.num_rounds);
  EXPECT_EQ(account.candidates[0].num_chosen, automatic.num_rounds);
  EXPECT_GT(automatic.num_rounds, 0U);
}

/// Always right; a call takes 2 ms.
class slow_oracle final : public speculation::drafter {
 public:
  slow_oracle(std::unique_ptr<speculation::drafter> inner, test::virtual_clock*& time)
      : inner_(std::move(inner)), time_(time) {}
  const speculation::drafter_traits& traits() const noexcept override { return inner_->traits(); }
  std::unique_ptr<speculation::drafter_session> open(request_id request) override {
    return inner_->open(request);
  }
  void propose(device::ops& ops, model::kv_storage* kv, std::span<speculation::draft_task> tasks) override {
    inner_->propose(ops, kv, tasks);
    time_->spend(std::chrono::milliseconds(2));
  }

 private:
  std::unique_ptr<speculation::drafter> inner_;
  test::virtual_clock*& time_;
};

class the_trace : public testing::TestWithParam<bool> {};

TEST_P(the_trace, has_the_times_of_draft_and_pass_since_the_request_and_what_was_committed) {
  const model::hash_model oracle(test::small_target(128));
  test::virtual_clock* time = nullptr;
  std::vector<std::unique_ptr<speculation::drafter>> drafters;
  drafters.push_back(std::make_unique<slow_oracle>(
      test::make_scripted_drafter(
          "right", test::own_sample([&](std::span<const token_id> c) { return oracle.logits_after(c); })),
      time));
  lone_rounds device(
      test::small_target(128), [](std::size_t) { return std::chrono::milliseconds(10); },
      std::move(drafters));
  time = &device.time();
  for (int run = 0; run < 2; ++run) { // the second request begins its own count
    auto request = greedy_request();
    request.trace = true;
    device.forget();
    device.events.clear();
    device.submit(std::move(request), GetParam() ? device.automatic() : drafter_index{1}, 3);
    device.run();
    std::chrono::microseconds before{};
    std::size_t num_drafted = 0;
    for (const auto& event : device.events) {
      ASSERT_TRUE(event.trace);
      const auto& round = *event.trace;
      EXPECT_EQ(round.tokens, event.tokens);
      EXPECT_EQ(round.verified.end - round.verified.begin, std::chrono::milliseconds(10));
      ASSERT_EQ(round.drafted.has_value(), !round.draft_tokens.empty());
      if (round.drafted) {
        ++num_drafted;
        EXPECT_EQ(round.drafted->begin, before);
        EXPECT_EQ(round.drafted->end - round.drafted->begin, std::chrono::milliseconds(2));
        EXPECT_EQ(round.verified.begin, round.drafted->end);
      }
      before = round.verified.end;
    }
    EXPECT_GT(num_drafted, 3U);
  }
}

INSTANTIATE_TEST_SUITE_P(of_a_drafter_and_of_auto, the_trace, testing::Bool());

TEST(round_outcomes, a_request_that_is_not_traced_tells_no_rounds) {
  auto device = always_right();
  device->submit(greedy_request(), drafter_index{1}, 3);
  device->run();
  for (const auto& event : device->events) EXPECT_FALSE(event.trace);
}

} // namespace
} // namespace paceline::rounds::round_outcomes_test
