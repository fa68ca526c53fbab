// Rounds from composition to report, with drafts that are lost with their device.
#include "actors/target_verifier_state.hpp"

#include "runtime/model/hash_model.hpp"
#include "runtime/rounds/admit.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "tests/support/simulated_device.hpp"
#include "tests/support/small_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace paceline::actors {
namespace {

using scheduling::draft_batch;
using scheduling::plan_item;
using scheduling::round_plan;
using scheduling::round_result;

constexpr drafter_index drafter{1};
constexpr std::uint32_t block_size = 16;

/// One request in one group; rounds follow each other as the scheduler would compose them.
class target_verifier_state_test : public testing::Test {
 protected:
  target_verifier_state_test() {
    generation_request request;
    for (int i = 0; i < 6; ++i) request.prompt.emplace_back(i * 7);
    request.stop.max_tokens = 20;
    request.stop.ignore_eos = true;
    request.sampling.temperature = 0;
    admitted = rounds::admit(request_id{1}, std::move(request), 64U, nullptr, device.time().now());
  }

  struct composed {
    std::optional<std::uint32_t> restart_at = {};
    std::optional<drafter_index> worker = {};
    std::uint32_t first_block = 0;
  };
  round_id compose(const composed& what) {
    plan_item item;
    item.request = admitted;
    for (std::uint32_t b = 0; b < 4; ++b) item.blocks.emplace_back(what.first_block + b);
    item.restart_at = what.restart_at;
    item.max_rows = what.restart_at ? admitted.log->length() : 1;
    item.worker = what.worker;
    const round_id round{++num_rounds};
    take(state.on_round(std::make_shared<round_plan>(round_plan{round, group_id{0}, {item}})));
    return round;
  }
  void answer(round_id round, device::fence ready) {
    auto batch = std::make_shared<draft_batch>();
    batch->drafter = drafter;
    take(state.on_drafts(round, drafter, state.current_epoch(), std::move(batch), std::move(ready)));
  }
  /// Ends programs, and reports them to the state, until nothing is left to do.
  void settle() {
    for (device.start_ready(); device.num_running() > 0 || !watched.empty(); device.start_ready()) {
      if (device.num_running() > 0) device.complete_earliest();
      for (const auto& watch : std::exchange(watched, {}))
        watch.fence.passed() ? take(state.on_passed(watch.round)) : watched.push_back(watch);
    }
    EXPECT_EQ(state.check_invariants(), "");
  }
  void take(verifier_actions actions) {
    std::ranges::move(actions.watches, std::back_inserter(watched));
    for (const auto& report : actions.reports) {
      reported.push_back(report);
      state.acknowledge(report->round);
    }
  }

  std::vector<token_id> told_by_the_target_alone() const {
    const auto all = admitted.log->tokens();
    std::vector<token_id> text(all.begin(), all.begin() + admitted.terms->prompt_length());
    while (text.size() < all.size()) {
      const auto logits = target.logits_after(text);
      text.emplace_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    }
    return text;
  }
  std::vector<token_id> told() const {
    return {admitted.log->tokens().begin(), admitted.log->tokens().end()};
  }

  static device::fence failed(errc code) {
    auto done = std::make_shared<device::fence::state>();
    done->pass(error{code, "the draft's device is gone"});
    return device::fence(done);
  }

  test::simulated_device device{1};
  model::hash_model target{test::small_target(64)};
  std::unique_ptr<model::kv_storage> kv = target.make_kv_storage(8, block_size);
  rounds::round_runner runner{{&target, kv.get(), {nullptr, nullptr}, 64, &device.time(), {}}};
  std::unique_ptr<device::stream> stream = device.make_stream("target", 0);
  target_verifier_state state{*stream, runner, 1};
  scheduling::admitted_request admitted;
  std::uint64_t num_rounds = 0;
  std::vector<verifier_actions::watch> watched;
  std::vector<std::shared_ptr<const round_result>> reported;
};

TEST_F(target_verifier_state_test, a_round_without_its_drafts_goes_on_and_names_the_drafter) {
  compose({.restart_at = 0});
  const auto second = compose({.worker = drafter});
  answer(second, failed(errc::device_lost));
  settle();
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_FALSE(reported[1]->failure);
  ASSERT_EQ(reported[1]->failed_drafters.size(), 1U);
  EXPECT_EQ(reported[1]->failed_drafters[0].drafter, drafter);
  EXPECT_EQ(admitted.log->output_length(), 2U);
  EXPECT_EQ(told(), told_by_the_target_alone());
}

TEST_F(target_verifier_state_test, rounds_behind_one_whose_drafts_are_lost_run_after_it) {
  compose({.restart_at = 0});
  settle();
  // The request is preempted and resumes with other blocks. The round that reports this has lost its drafts,
  // and the next round has none.
  const auto back = compose({.restart_at = 0, .worker = drafter, .first_block = 4});
  answer(back, failed(errc::device_lost));
  compose({.first_block = 4});
  compose({.first_block = 4});
  settle();
  ASSERT_EQ(reported.size(), 4U);
  for (std::size_t i = 0; i < reported.size(); ++i) {
    EXPECT_EQ(reported[i]->round, round_id{i + 1}) << "reported out of order";
    EXPECT_FALSE(reported[i]->failure);
  }
  EXPECT_EQ(admitted.log->output_length(), 4U);
  EXPECT_EQ(told(), told_by_the_target_alone());
}

TEST_F(target_verifier_state_test, drafts_lost_with_those_of_the_round_before_are_counted_once) {
  compose({.restart_at = 0});
  settle();
  const auto first = compose({.worker = drafter});
  answer(first, failed(errc::device_lost));
  const auto next = compose({.worker = drafter});
  answer(next, failed(errc::device_lost)); // its program was to run after the first's verification
  settle();
  ASSERT_EQ(reported.size(), 3U);
  ASSERT_EQ(reported[1]->failed_drafters.size(), 1U);
  EXPECT_EQ(reported[1]->failed_drafters[0].drafter, drafter);
  EXPECT_TRUE(reported[2]->failed_drafters.empty());
  EXPECT_EQ(told(), told_by_the_target_alone());
}

/// A stream whose own device is lost: programs fail without running, whatever they waited for.
class lost_stream final : public device::stream {
 public:
  device::fence submit(std::string_view, std::vector<device::fence>, device::program) override {
    ++submitted_;
    auto done = std::make_shared<device::fence::state>();
    done->pass(error{errc::device_lost, "the target's device is gone"});
    return device::fence(done);
  }
  const std::string& name() const noexcept override { return name_; }
  std::uint64_t completed() const noexcept override { return submitted_; }
  std::uint64_t submitted() const noexcept override { return submitted_; }

 private:
  std::string name_ = "lost";
  std::uint64_t submitted_ = 0;
};

TEST_F(target_verifier_state_test, a_round_whose_own_stream_has_failed_is_not_tried_for_ever) {
  lost_stream lost;
  target_verifier_state on_lost(lost, runner, 1);
  plan_item item;
  item.request = admitted;
  item.restart_at = 0;
  auto out = on_lost.on_round(std::make_shared<round_plan>(round_plan{round_id{1}, group_id{0}, {item}}));
  for (int tries = 0; out.reports.empty() && tries < 3; ++tries) out = on_lost.on_passed(round_id{1});
  ASSERT_EQ(out.reports.size(), 1U);
  ASSERT_TRUE(out.reports.front()->failure);
  EXPECT_EQ(out.reports.front()->failure->code(), errc::device_lost);
}

} // namespace
} // namespace paceline::actors
