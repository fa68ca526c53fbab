#include "runtime/rounds/draft_tasks.hpp"

#include "tests/runtime/rounds/rounds.hpp"
#include "tests/support/cycle_constraint.hpp"

#include <gtest/gtest.h>

namespace paceline::rounds {

using namespace scheduling;
namespace {

/// What a drafter may read of the target's pool: cells in the blocks of the plan, after the target has
/// computed them there.
TEST(final_cells, are_those_of_the_admission_that_the_log_speaks_of) {
  generation_request request;
  request.prompt.assign(5, token_id{1});
  request.stop.max_tokens = 8;
  plan_item item;
  item.request = admit(request_id{1}, std::move(request), 64, nullptr, time_point(std::chrono::hours(1)));
  item.blocks = {block_id{4}, block_id{2}};
  item.admission = 1;
  const model::hash_model target({});
  const auto kv = target.make_kv_storage(8, 4);
  auto& progress = *item.request.progress;
  progress.restart_at(0, 0, 1);
  EXPECT_EQ(final_cells(item, kv.get()).kv, nullptr) << "the prompt has not been computed";
  progress.set_kv_length(4);
  const auto cells = final_cells(item, kv.get());
  EXPECT_EQ(cells.kv, kv.get());
  EXPECT_EQ(cells.num_final, 4U) << "all but the newest token's";
  EXPECT_EQ(cells.blocks.data(), item.blocks.data());
  EXPECT_EQ(final_cells(item, nullptr).kv, nullptr);
  item.admission = 2; // preempted and admitted again; the round that restarts it has not run
  EXPECT_EQ(final_cells(item, kv.get()).kv, nullptr);
  progress.restart_at(0, 0, 2);
  EXPECT_EQ(final_cells(item, kv.get()).kv, nullptr);
  progress.set_kv_length(4);
  EXPECT_EQ(final_cells(item, kv.get()).kv, kv.get());
}

/// A drafter that learns from its probes would learn nothing for as long as its guesses are not allowed.
TEST(drop_disallowed, keeps_the_probes_that_are_below_no_disallowed_token) {
  generation_request request;
  request.prompt.assign(5, token_id{1});
  request.stop.max_tokens = 8;
  const auto item = admit(request_id{1}, std::move(request), 64, nullptr, time_point(std::chrono::hours(1)));
  const auto constraint = test::make_cycle_constraint(64);
  const auto draft_of = [](token_id guess) {
    speculation::draft made{.base_length = 5};
    made.tree.add(guess, speculation::token_tree::root);
    made.add_probe(token_id{8}, made.add_probe(token_id{7}, speculation::token_tree::root));
    made.add_probe(token_id{9}, 0);
    return made;
  };
  const token_id allowed{4}, forbidden{3}; // the first place takes no multiple of 3
  auto right = draft_of(allowed);
  drop_disallowed(right, *item.log, constraint->begin().get());
  EXPECT_EQ(right.tree.size(), 1U);
  EXPECT_EQ(right.probes.size(), 3U);
  auto wrong = draft_of(forbidden);
  drop_disallowed(wrong, *item.log, constraint->begin().get());
  EXPECT_TRUE(wrong.tree.empty());
  ASSERT_EQ(wrong.probes.size(), 2U);
  EXPECT_EQ(wrong.path_to(1), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(speculation::validate_draft(wrong, 64, 4, 4));
}

} // namespace
} // namespace paceline::rounds
