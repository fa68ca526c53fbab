#include "tests/runtime/scheduling/ledger_test.hpp"

#include <vector>

namespace paceline::scheduling {
namespace {

using namespace test_support;
using answer = memory_ledger::answer;

TEST_F(memory_ledger_test, a_request_holds_memory_from_its_first_lease_on) {
  const auto ticket = ask_for_first_lease(oldest);
  EXPECT_TRUE(ledger.holders().empty());
  EXPECT_FALSE(ledger.idle(oldest)) << "a question is under way";
  EXPECT_EQ(ledger.take(grant(oldest, target_pool, ticket, 3), commands), answer::granted);
  EXPECT_EQ(ledger.holders(), std::vector{oldest});
  EXPECT_EQ(ledger.positions(oldest), 12U);
  EXPECT_TRUE(ledger.idle(oldest));
}

TEST_F(memory_ledger_test, an_answer_to_an_earlier_question_is_stale) {
  const auto lost = ask_for_first_lease(oldest);
  ledger.on_pool_restarted(commands);
  const auto ticket = ask_for_first_lease(oldest);
  ASSERT_NE(lost, ticket);
  EXPECT_EQ(ledger.take(grant(oldest, target_pool, lost, 9), commands), answer::stale);
  EXPECT_TRUE(ledger.blocks(oldest).empty());
  EXPECT_EQ(ledger.take(grant(oldest, target_pool, ticket, 3), commands), answer::granted);
  EXPECT_EQ(ledger.take(grant(oldest, target_pool, ticket, 9), commands), answer::stale) << "answered twice";
  EXPECT_EQ(ledger.blocks(oldest).size(), 3U);
}

TEST_F(memory_ledger_test, what_is_granted_to_a_request_that_is_gone_goes_back) {
  const auto ticket = ask_for_first_lease(oldest);
  ledger.close(oldest);
  EXPECT_EQ(ledger.take(grant(oldest, target_pool, ticket, 3), commands), answer::stale);
  const auto back = said<release_command>();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->request, oldest);
}

TEST_F(memory_ledger_test, a_lease_that_suffices_is_not_asked_for_again) {
  begin(oldest, 8, 8);
  EXPECT_EQ(ask(oldest), 0U) << "32 positions do for the tree";
  ledger.tell(oldest, use_at(9));
  EXPECT_EQ(ask(oldest, 9), 9U + 24);
  EXPECT_EQ(ledger.blocks(oldest).size(), 9U);
}

TEST_F(memory_ledger_test, one_question_at_a_time_is_under_way) {
  begin(oldest, 3, 8);
  ledger.want(oldest, look_ahead::plain, commands);
  EXPECT_TRUE(said<reserve_command>());
  ledger.want(oldest, look_ahead::plain, commands);
  EXPECT_FALSE(said<reserve_command>());
}

TEST_F(memory_ledger_test, a_refused_request_asks_for_less_and_for_as_much_when_blocks_come_back) {
  begin(oldest, 2, 8);
  EXPECT_EQ(ask(oldest), 8U + 24);
  EXPECT_TRUE(ledger.tight());
  EXPECT_EQ(ask(oldest), 8U + 8) << "no trees any more";
  EXPECT_EQ(ask(oldest), 8U + 2);
  EXPECT_EQ(ask(oldest), 0U) << "nothing less helps";
  ledger.on_blocks_freed();
  EXPECT_EQ(ask(oldest), 8U + 8);
}

TEST_F(memory_ledger_test, what_trees_hold_goes_back_when_the_pool_is_full) {
  begin(oldest, 8, 8);
  auto use = use_at(8, 1);
  use.written = 21;
  ledger.tell(oldest, use);
  ledger.note_submissions(oldest, std::vector<std::uint64_t>{41});
  begin(middle, 2, 8);
  EXPECT_EQ(ask(middle), 8U + 24);
  EXPECT_EQ(ledger.blocks(oldest).size(), 6U) << "the round in flight writes to position 21";
  const auto back = said<rollback_command>();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->request, oldest);
  EXPECT_EQ(back->num_positions, 21U);
  EXPECT_EQ(back->after, 41U) << "they are reused behind the last program that may touch them";
}

TEST_F(memory_ledger_test, a_lease_in_use_everywhere_does_not_shrink) {
  begin(oldest, 8, 8);
  auto use = use_at(8);
  use.scattered = true;
  ledger.tell(oldest, use);
  begin(middle, 2, 8);
  ask(middle);
  EXPECT_TRUE(ledger.tight());
  EXPECT_EQ(ledger.blocks(oldest).size(), 8U);
}

TEST_F(memory_ledger_test, the_end_of_a_request_ends_the_shortage) {
  begin(oldest, 2, 8);
  begin(middle, 2, 8);
  ask(oldest);
  ASSERT_TRUE(ledger.tight());
  ledger.note_submissions(middle, std::vector<std::uint64_t>{7});
  ledger.ended(middle, commands);
  EXPECT_FALSE(ledger.tight());
  const auto back = said<release_command>();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->after, 7U);
  EXPECT_EQ(ledger.holders(), std::vector{oldest});
}

TEST_F(memory_ledger_test, a_newcomer_that_is_refused_asks_again_without_trees_and_then_waits_for_blocks) {
  begin(oldest, 4, 8);
  auto ticket = ask_for_first_lease(middle);
  EXPECT_EQ(ledger.take(refusal(middle, ticket), commands), answer::refused);
  EXPECT_TRUE(ledger.admits()) << "trees give back what they hold";
  ticket = ask_for_first_lease(middle);
  EXPECT_EQ(ledger.take(refusal(middle, ticket), commands), answer::refused);
  EXPECT_FALSE(ledger.admits());
  ledger.on_blocks_freed();
  EXPECT_TRUE(ledger.admits());
}

TEST_F(memory_ledger_test, a_newcomer_without_state_slots_waits_and_no_tree_gives_back_blocks) {
  begin(oldest, 8, 8);
  auto refused = refusal(middle, ask_for_first_lease(middle));
  refused.lacks_states = true;
  EXPECT_EQ(ledger.take(refused, commands), answer::refused);
  EXPECT_FALSE(ledger.tight());
  EXPECT_EQ(ledger.blocks(oldest).size(), 8U);
  EXPECT_FALSE(ledger.admits());
  ledger.on_blocks_freed();
  EXPECT_TRUE(ledger.admits());
}

TEST_F(memory_ledger_test, nobody_is_admitted_while_a_holder_waits_for_blocks) {
  begin(oldest, 2, 8);
  ledger.want(oldest, look_ahead::plain, commands);
  EXPECT_FALSE(ledger.admits()) << "its answer is under way";
  const auto asked = said<reserve_command>();
  ASSERT_TRUE(asked);
  ledger.take(refusal(oldest, asked->ticket), commands);
  EXPECT_TRUE(ledger.admits()) << "a tree waits for nobody";
  ask(oldest);
  EXPECT_FALSE(ledger.admits()) << "a chain does";
}

TEST_F(memory_ledger_test, the_youngest_gives_way_to_one_that_stands_still) {
  three_of_whom_the_oldest_starves();
  EXPECT_EQ(ledger.make_way_for(oldest), youngest);
  EXPECT_TRUE(ledger.gives_way(youngest));
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt) << "one at a time";
  EXPECT_FALSE(ledger.gives_way(middle));
  ledger.preempted(youngest, commands);
  EXPECT_FALSE(ledger.gives_way(youngest));
  EXPECT_EQ(ledger.holders(), (std::vector{oldest, middle}));
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt) << "it may have enough now";
  ledger.forget_ways();
  EXPECT_EQ(ledger.make_way_for(oldest), middle);
}

TEST_F(memory_ledger_test, nobody_gives_way_to_one_that_can_go_on) {
  three_of_whom_the_oldest_starves();
  ledger.tell(oldest, use_at(16)); // its last token has a cell
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt);
  ledger.tell(oldest, use_at(17));
  ledger.on_blocks_freed();
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt) << "it has not been refused since";
}

TEST_F(memory_ledger_test, nobody_gives_way_while_a_tree_is_verified) {
  three_of_whom_the_oldest_starves();
  ledger.tell(middle, use_at(4, 1)); // its chain needs three of its four blocks
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt) << "the fourth comes back";
  ledger.tell(middle, use_at(8, 1));
  EXPECT_EQ(ledger.make_way_for(oldest), youngest);
}

TEST_F(memory_ledger_test, who_ends_is_waited_for) {
  three_of_whom_the_oldest_starves();
  auto use = use_at(8);
  use.closing = true;
  ledger.tell(youngest, use);
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt);
}

TEST_F(memory_ledger_test, who_gives_way_stays_when_the_needy_one_has_its_blocks) {
  three_of_whom_the_oldest_starves();
  ASSERT_EQ(ledger.make_way_for(oldest), youngest);
  ledger.on_blocks_freed();
  EXPECT_TRUE(ledger.gives_way(youngest)) << "they may not suffice";
  ask(oldest, 8);
  EXPECT_FALSE(ledger.gives_way(youngest));
}

TEST_F(memory_ledger_test, who_gives_way_stays_when_the_needy_one_ends) {
  three_of_whom_the_oldest_starves();
  ASSERT_EQ(ledger.make_way_for(oldest), youngest);
  ledger.ended(oldest, commands);
  EXPECT_FALSE(ledger.gives_way(youngest));
}

TEST_F(memory_ledger_test, one_alone_gives_back_what_it_holds_rather_than_wait_with_it) {
  begin(oldest, 4, 8);
  ledger.tell(oldest, use_at(17, 1));
  while (ask(oldest) != 0) {
  }
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt) << "a round of it is in flight";
  ledger.tell(oldest, use_at(17));
  EXPECT_EQ(ledger.make_way_for(oldest), oldest);
  ledger.preempted(oldest, commands);
  EXPECT_TRUE(ledger.admits()) << "no news would come";
}

TEST_F(memory_ledger_test, who_was_preempted_waits_for_blocks_if_others_lack_them) {
  three_of_whom_the_oldest_starves();
  ASSERT_EQ(ledger.make_way_for(oldest), youngest);
  ledger.preempted(youngest, commands);
  EXPECT_FALSE(ledger.admits());
  ledger.on_blocks_freed();
  EXPECT_TRUE(ledger.admits());
}

TEST_F(memory_ledger_test, a_restarted_pool_manager_hears_who_holds_memory_and_is_asked_again) {
  begin(oldest, 2, 8);
  ask_for_first_lease(middle);
  ledger.want(oldest, look_ahead::plain, commands);
  const auto lost = said<reserve_command>();
  ledger.on_pool_restarted(commands);
  const auto alive = said<retain_command>();
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->leases, (std::vector<retain_command::lease>{{oldest, target_pool}}));
  EXPECT_TRUE(ledger.idle(oldest));
  EXPECT_TRUE(ledger.idle(middle));
  EXPECT_EQ(ask(oldest), lost->num_positions);
}

} // namespace
} // namespace paceline::scheduling
