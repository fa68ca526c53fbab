// Draft programs of requests in several groups.
#include "runtime/rounds/draft_runner.hpp"

#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/request_progress.hpp"
#include "tests/runtime/rounds/rounds.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace paceline::rounds {

using namespace scheduling;
namespace {

constexpr drafter_index own_drafter{1};

/// A request whose prompt is computed.
admitted_request request_number(std::uint64_t id, time_point now) {
  generation_request request;
  request.prompt.assign(4, token_id{3});
  request.stop.max_tokens = 20;
  auto made = admit(request_id{id}, std::move(request), 64, nullptr, now);
  made.progress->restart_at(0, 0, 0);
  made.progress->set_kv_length(made.log->length() - 1);
  return made;
}

round_plan plan_of(const admitted_request& request, round_id round, group_id group) {
  plan_item item;
  item.request = request;
  for (std::uint32_t b = 0; b < 4; ++b) item.blocks.emplace_back(b);
  item.drafter = own_drafter;
  item.worker = own_drafter;
  item.draft_length = item.worker_length = item.max_nodes = 3;
  item.ahead = ahead_mode::ahead;
  return {round, group, {std::move(item)}};
}

/// A request of group 0 that has been drafted for, and has ended. Its group has no further round.
class ended_request : public testing::Test {
 protected:
  ended_request() {
    auto request = request_number(1, time.now());
    run(plan_of(request, round_id{1}, group_id{0}));
    terms = request.terms;
  }
  void run(const round_plan& plan) {
    test::no_ops ops;
    draft_batch batch;
    runner.run(ops, plan, batch);
    EXPECT_EQ(batch.num_drafted, 1U);
  }

  test::virtual_clock time;
  std::unique_ptr<speculation::drafter> drafter =
      test::make_scripted_drafter("seven", [](const auto&, auto) { return token_id{7}; });
  draft_runner runner{*drafter, own_drafter, nullptr, 16, 64, time};
  std::weak_ptr<const request_terms> terms;
};

TEST_F(ended_request, is_forgotten_in_the_next_round_of_any_group) {
  EXPECT_FALSE(terms.expired()) << "the next round of its group would take its drafts in advance";
  run(plan_of(request_number(2, time.now()), round_id{2}, group_id{1}));
  EXPECT_TRUE(terms.expired()) << "its prompt and its drafts in advance stay";
}

TEST_F(ended_request, is_forgotten_when_no_further_drafts_are_asked_for) {
  runner.drop_ended();
  EXPECT_TRUE(terms.expired());
}

} // namespace
} // namespace paceline::rounds
