// Programs of a draft worker, on a device in virtual time.
#include "actors/draft_worker_state.hpp"

#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/request_progress.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "tests/support/simulated_device.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace paceline::actors {
namespace {

constexpr drafter_index own_drafter{1};

class draft_worker_state_test : public testing::Test {
 protected:
  draft_worker_state_test() {
    generation_request request;
    request.prompt.assign(4, token_id{3});
    request.stop.max_tokens = 20;
    admitted = rounds::admit(request_id{1}, std::move(request), 64, nullptr, device.time().now());
  }

  std::shared_ptr<const scheduling::round_plan> plan_of(drafter_index worker,
                                                        ahead_mode ahead = ahead_mode::off) {
    scheduling::plan_item item;
    item.request = admitted;
    for (std::uint32_t b = 0; b < 4; ++b) item.blocks.emplace_back(b);
    item.drafter = worker;
    item.worker = worker;
    item.draft_length = item.worker_length = item.max_nodes = 3;
    item.ahead = ahead;
    return std::make_shared<scheduling::round_plan>(
        scheduling::round_plan{round_id{1}, group_id{0}, {std::move(item)}});
  }
  void run_all() {
    for (device.start_ready(); device.num_running() > 0; device.start_ready()) device.complete_earliest();
  }

  test::simulated_device device{1};
  std::unique_ptr<speculation::drafter> drafter =
      test::make_scripted_drafter("seven", [](const auto&, auto) { return token_id{7}; });
  std::unique_ptr<device::stream> stream = device.make_stream("draft", 0);
  rounds::draft_runner runner{*drafter, own_drafter, nullptr, 16, 64, device.time()};
  draft_worker_state state{*stream, runner, own_drafter, pool_number{2}};
  scheduling::admitted_request admitted;
};

TEST_F(draft_worker_state_test, a_draft_waits_for_the_round_before_it) {
  auto before = std::make_shared<device::fence::state>();
  const auto made = state.on_request(plan_of(own_drafter), device::fence(before));
  run_all();
  EXPECT_FALSE(made.ready.passed());
  before->pass({});
  run_all();
  EXPECT_TRUE(made.ready.passed());
}

TEST_F(draft_worker_state_test, the_batch_says_whose_program_it_is_before_that_has_run) {
  for (std::uint64_t submission = 1; submission <= 3; ++submission) {
    const auto made = state.on_request(plan_of(own_drafter), {});
    EXPECT_EQ(made.drafts->drafter, own_drafter);
    EXPECT_EQ(made.drafts->pool, pool_number{2});
    EXPECT_EQ(made.drafts->submission, submission);
  }
}

TEST_F(draft_worker_state_test, drafts_in_advance_are_a_program_of_their_own_before_the_draft) {
  auto before = std::make_shared<device::fence::state>();
  const auto made = state.on_request(plan_of(own_drafter, ahead_mode::ahead), device::fence(before));
  EXPECT_EQ(made.drafts->submission, 2U);
  run_all();
  EXPECT_FALSE(made.ready.passed());
}

TEST_F(draft_worker_state_test, nothing_is_drafted_in_advance_of_a_round_that_has_passed) {
  const auto made = state.on_request(plan_of(own_drafter, ahead_mode::ahead), {});
  EXPECT_EQ(made.drafts->submission, 1U);
}

TEST_F(draft_worker_state_test, of_a_lost_worker_the_programs_under_way_end_first) {
  auto before = std::make_shared<device::fence::state>();
  state.on_request(plan_of(own_drafter), device::fence(before));
  const auto done = state.programs_done();
  run_all();
  EXPECT_FALSE(done.passed());
  before->pass({});
  run_all();
  EXPECT_TRUE(done.passed());
}

TEST_F(draft_worker_state_test, of_a_lost_worker_nothing_keeps_a_request_that_goes_on) {
  admitted.progress->restart_at(0, 0, 0);
  admitted.progress->set_kv_length(admitted.log->length() - 1); // its prompt is computed
  const auto num_owners = admitted.log.use_count();
  state.on_request(plan_of(own_drafter, ahead_mode::ahead), {});
  run_all();
  EXPECT_EQ(admitted.log.use_count(), num_owners + 2) << "its session, and the draft to go on from";
  state.programs_done();
  run_all();
  EXPECT_EQ(admitted.log.use_count(), num_owners);
}

} // namespace
} // namespace paceline::actors
