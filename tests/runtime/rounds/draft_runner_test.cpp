// Draft programs of requests in several groups.
#include "runtime/rounds/draft_runner.hpp"

#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/request_progress.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/runtime/rounds/rounds.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace paceline::rounds {

using namespace scheduling;
namespace {

constexpr drafter_index own_drafter{1};

/// A request whose prompt is computed.
admitted_request request_number(std::uint64_t id, time_point now, std::uint32_t prompt_length = 4) {
  generation_request request;
  request.prompt.assign(prompt_length, token_id{3});
  request.stop.max_tokens = 20;
  auto made = admit(request_id{id}, std::move(request), 2048, nullptr, now);
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

/// A request of group 0 that got drafts and has ended. Its group has no further round.
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

TEST_F(ended_request, is_forgotten_if_other_drafters_drafted_for_it_too) {
  draft_runner other{*drafter, own_drafter, nullptr, 16, 64, time};
  auto request = request_number(2, time.now());
  const std::weak_ptr<const request_terms> shared = request.terms;
  for (auto* one : {&runner, &other}) {
    test::no_ops ops;
    draft_batch batch;
    one->run(ops, plan_of(request, round_id{1}, group_id{0}), batch);
  }
  runner.drop_ended();
  EXPECT_FALSE(shared.expired());
  request = {};
  for (auto* one : {&runner, &other}) one->drop_ended();
  EXPECT_TRUE(shared.expired()) << "each waits for the other to forget it";
}

/// A pool that only counts the copies, and fails to make one when told to.
class counted_copies final : public model::kv_storage {
 public:
  std::uint32_t num_blocks() const noexcept override { return 8; }
  std::uint32_t block_size() const noexcept override { return 16; }
  void copy(device::ops&, std::span<const device::kv_copy> copies) override {
    if (std::exchange(fail_next, false)) throw std::runtime_error("lost");
    num_copies += copies.size();
  }
  void copy_from(device::ops&, const model::kv_storage&, std::span<const device::kv_copy>) override {}
  void poison(std::span<const block_id>) override {}

  bool fail_next = false;
  std::size_t num_copies = 0;
};

/// Two requests with leases that begin with a copy. `copied` holds, for each draft, the copies that were made
/// before it.
class new_lease : public testing::Test {
 protected:
  new_lease() {
    for (const auto& one : {first, other}) {
      auto& item = plan.items.emplace_back(plan_of(one, round_id{1}, group_id{0}).items.front());
      enter(item, one.id().value);
    }
  }
  void commit(const admitted_request& request, std::initializer_list<std::int32_t> tokens) const {
    request.progress->begin_round(time.now());
    for (const auto token : tokens) request.progress->commit(token_id{token}, std::nullopt);
    request.progress->set_kv_length(request.log->length() - 1);
  }
  static void enter(plan_item& item, std::uint64_t lease) {
    item.drafter_lease = lease;
    item.drafter_blocks = {block_id{0}, block_id{1}};
    item.drafter_copies = {{block_id{5}, 0, block_id{1}, 0, 3}};
  }
  draft_batch run() {
    test::no_ops ops;
    draft_batch batch;
    copied.clear();
    runner.run(ops, plan, batch);
    ++plan.round.value;
    return batch;
  }

  test::virtual_clock time;
  admitted_request first = request_number(1, time.now()), other = request_number(2, time.now());
  counted_copies kv;
  std::vector<std::size_t> copied;
  bool fail_next_draft = false;
  std::unique_ptr<speculation::drafter> drafter =
      test::make_scripted_drafter("seven", [this](const auto&, std::span<const token_id> path) {
        if (std::exchange(fail_next_draft, false)) throw std::runtime_error("lost");
        if (path.empty()) copied.push_back(kv.num_copies);
        return token_id{7};
      });
  draft_runner runner{*drafter, own_drafter, &kv, 16, 64, time};
  round_plan plan{round_id{1}, group_id{0}, {}};
};

TEST_F(new_lease, is_entered_once) {
  run();
  EXPECT_EQ(copied, (std::vector<std::size_t>{2, 2}));
  run();
  EXPECT_EQ(copied, (std::vector<std::size_t>{2, 2})) << "the same leases";
  enter(plan.items[0], 9);
  run();
  EXPECT_EQ(copied, (std::vector<std::size_t>{3, 3}));
}

TEST_F(new_lease, is_entered_by_the_next_round_if_this_one_fails_to) {
  kv.fail_next = true;
  const auto failed = run();
  EXPECT_TRUE(failed.failure.has_value());
  EXPECT_TRUE(copied.empty()) << "cells of the prefix cache are missing";
  EXPECT_FALSE(run().failure.has_value());
  EXPECT_EQ(copied, (std::vector<std::size_t>{2, 2})) << "the other request's too";
}

/// A device may begin copies together with the pass after them.
TEST_F(new_lease, is_entered_again_if_the_program_fails_behind_the_copies) {
  fail_next_draft = true;
  EXPECT_TRUE(run().failure.has_value());
  EXPECT_FALSE(run().failure.has_value());
  EXPECT_EQ(copied, (std::vector<std::size_t>{4, 4})) << "the first ones may not have been made";
  run();
  EXPECT_EQ(copied, (std::vector<std::size_t>{4, 4}));
}

TEST_F(new_lease, is_entered_again_for_a_draft_that_was_ready_if_the_program_fails) {
  run();
  test::no_ops ops;
  runner.run_ahead(ops, plan, device::fence(std::make_shared<device::fence::state>()));
  commit(first, {7, 7, 7, 7});
  commit(other, {7, 5});
  fail_next_draft = true;
  const auto failed = run();
  EXPECT_TRUE(failed.failure.has_value());
  EXPECT_FALSE(failed.drafts.at(0).tree.empty()) << "it was made before";
  EXPECT_FALSE(run().failure.has_value());
  EXPECT_EQ(copied, (std::vector<std::size_t>{4, 4})) << "its cells may not have been moved to their places";
}

TEST_F(new_lease, is_entered_by_the_second_round_if_the_first_never_runs) {
  ++plan.round.value;
  run();
  EXPECT_EQ(copied, (std::vector<std::size_t>{2, 2}));
}

/// Two requests with a drafting model: a short one, and one whose prompt takes three programs.
TEST(draft_runner_test, its_time_is_not_representative_until_a_long_prompt_is_read) {
  test::virtual_clock time;
  const auto own = std::make_shared<model::hash_model>(model::hash_model_config{.context_length = 2048});
  speculation::model_drafter drafter(test::options_of("model", "model"), {.model = own},
                                     own->info().vocab_size);
  const auto kv = own->make_kv_storage(200, 16);
  draft_runner runner(drafter, own_drafter, kv.get(), 16, 2048, time);
  round_plan plan{round_id{1}, group_id{0}, {}};
  for (const std::uint32_t prompt_length : {4U, 2 * speculation::model_drafter::max_catch_up + 50}) {
    const auto number = static_cast<std::uint32_t>(plan.items.size());
    const auto request = request_number(number + 1, time.now(), prompt_length);
    auto& item = plan.items.emplace_back(plan_of(request, round_id{1}, group_id{0}).items.front());
    item.ahead = ahead_mode::off;
    item.drafter_lease = number + 1;
    item.blocks.clear();
    for (std::uint32_t b = 0; b < 100; ++b) item.blocks.emplace_back(100 * number + b);
    item.drafter_blocks = item.blocks;
  }
  std::vector<bool> catching_up, has_draft;
  for (; plan.round.value <= 5; ++plan.round.value) {
    test::no_ops ops;
    draft_batch batch;
    runner.run(ops, plan, batch);
    catching_up.push_back(batch.catching_up);
    has_draft.push_back(!batch.drafts[1].tree.empty());
    EXPECT_FALSE(batch.drafts[0].tree.empty()) << "the other request waits for nothing";
    for (const auto& item : plan.items) {
      auto& progress = *item.request.progress;
      progress.begin_round(time.now());
      progress.commit(token_id{5}, std::nullopt);
      progress.set_kv_length(item.request.log->length() - 1);
    }
  }
  EXPECT_EQ(has_draft, (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(catching_up, (std::vector<bool>{true, true, true, false, false}));
}

/// A beam search whose two hypotheses differ from their first token on, and are longer than what a program
/// reads.
class far_hypotheses : public testing::Test {
 protected:
  static constexpr std::uint32_t num_steps = speculation::model_drafter::max_catch_up + 90;

  far_hypotheses() {
    generation_request request;
    request.prompt.assign(4, token_id{3});
    request.stop.max_tokens = num_steps + 40;
    request.beams = {.width = 2, .num_best = 1, .length_penalty = 1};
    auto& item = plan.items.emplace_back();
    item.request = admit(request_id{1}, std::move(request), 2048, nullptr, time.now());
    item.request.progress->restart_at(0, 0, 0);
    item.request.progress->set_kv_length(3);
    for (std::uint32_t b = 0; b < 110; ++b) item.blocks.emplace_back(b);
    item.drafter_blocks = item.blocks;
    item.drafter_lease = 1;
    item.drafter = own_drafter;
    item.worker = own_drafter;
    item.draft_length = item.worker_length = 2;
    item.max_nodes = 4;
    beams().set_prompt_computed();
    step();
    while (beams().output_of(0).size() < num_steps) step();
  }
  beam_search& beams() { return *plan.items[0].request.progress->beams(); }
  /// The prompt is followed by token 5 and by token 6. Each of these continues only with itself.
  void step() {
    beams().plan_rows(110 * 16);
    beams().advance(plan.items[0].request.progress->context_of_beams(), [&](std::uint32_t node) {
      std::ranges::fill(row, -100.0F);
      if (node == beam_search::root)
        row[5] = row[6] = 0;
      else
        row[static_cast<std::size_t>(beams().token_of(node).value)] = 0;
      return std::span(row);
    });
  }

  test::virtual_clock time;
  std::vector<float> row = std::vector<float>(300);
  round_plan plan{round_id{1}, group_id{0}, {}};
};

TEST_F(far_hypotheses, are_both_drafted_for_once_they_are_read) {
  const auto own = std::make_shared<speculation::test_support::counted_model>(
      model::hash_model_config{.context_length = 2048});
  speculation::model_drafter drafter(test::options_of("model", "model"), {.model = own},
                                     own->info().vocab_size);
  const auto kv = own->make_kv_storage(110, 16);
  draft_runner runner(drafter, own_drafter, kv.get(), 16, 2048, time);
  std::vector<std::size_t> num_drafts;
  std::vector<bool> catching_up;
  for (; plan.round.value <= 5; ++plan.round.value) {
    test::no_ops ops;
    draft_batch batch;
    own->rows_of_passes.clear();
    runner.run(ops, plan, batch);
    ASSERT_FALSE(batch.failure) << batch.failure->message();
    ASSERT_EQ(batch.beams.size(), 1U);
    num_drafts.push_back(static_cast<std::size_t>(
        std::ranges::count_if(batch.beams[0], [](const auto& one) { return !one.tree.empty(); })));
    catching_up.push_back(batch.catching_up);
    step();
  }
  EXPECT_EQ(num_drafts, (std::vector<std::size_t>{0, 2, 2, 2, 2}));
  EXPECT_EQ(catching_up, (std::vector<bool>{true, true, false, false, false}));
  EXPECT_EQ(own->rows_of_passes, (std::vector<std::size_t>{2, 2})) << "a pass a level for both";
}

} // namespace
} // namespace paceline::rounds
