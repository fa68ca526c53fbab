#include "runtime/scheduling/memory_ledger.hpp"

#include "tests/runtime/scheduling/decided.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::scheduling {
namespace {

using answer = memory_ledger::answer;
using test_support::grant;

constexpr std::uint32_t block_size = 4;
constexpr request_id oldest{1}, middle{2}, youngest{3};
constexpr pool_number drafters_pool{1};

lease_event refusal(request_id request, std::uint64_t ticket, pool_number pool = target_pool) {
  return {request, pool, ticket, false, {}, 0, {}};
}

/// A request of `length` tokens; its trees need 24 more positions, its chains 8, and one token per round 2.
memory_use use_at(std::uint32_t length, std::uint32_t num_in_flight = 0) {
  memory_use use;
  use.num_in_flight = num_in_flight;
  use.needed = length;
  use.target = {length + 2, length + 8, length + 24};
  use.drafter = {0, length + 8, length + 24};
  return use;
}

class memory_ledger_test : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(ledger.check_invariants(), ""); }

  /// The last command of one kind since the previous call.
  template <class Command>
  std::optional<Command> said() {
    std::optional<Command> found;
    for (const auto& command : commands)
      if (const auto* one = std::get_if<Command>(&command)) found = *one;
    commands.clear();
    return found;
  }
  std::uint64_t ask_for_first_lease(request_id request) {
    ledger.open(request);
    acquire_command question;
    question.request = request;
    ledger.acquire(question, commands);
    return said<acquire_command>().value().ticket;
  }
  /// A holder of `num_blocks` blocks that decodes at `length`.
  void begin(request_id request, std::uint32_t num_blocks, std::uint32_t length) {
    const auto ticket = ask_for_first_lease(request);
    ASSERT_EQ(ledger.take(grant(request, target_pool, ticket, num_blocks), commands), answer::granted);
    ledger.tell(request, use_at(length));
  }
  /// Its request in the target's pool, 0 for none; the answer is `granted` blocks, or none.
  std::uint32_t ask(request_id request, std::uint32_t granted = 0) {
    ledger.want(request, look_ahead::plain, commands);
    const auto asked = said<reserve_command>();
    if (!asked) return 0;
    ledger.take(granted > 0 ? grant(request, target_pool, asked->ticket, granted)
                            : refusal(request, asked->ticket),
                commands);
    return asked->num_positions;
  }
  /// Three holders of four blocks each; the oldest is blocked, because the pool refused it a token.
  void three_of_whom_the_oldest_starves() {
    for (auto id : {oldest, middle, youngest}) begin(id, 4, 8);
    ledger.tell(oldest, use_at(17));
    while (ask(oldest) != 0) {
    }
  }

  memory_ledger ledger{block_size};
  memory_ledger::commands commands;
};

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

TEST_F(memory_ledger_test, a_drafter_without_memory_harms_nobody) {
  begin(oldest, 8, 8);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  auto asked = said<acquire_for_drafter_command>();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->pool, drafters_pool);
  EXPECT_EQ(ledger.take(refusal(oldest, asked->ticket, drafters_pool), commands), answer::refused);
  EXPECT_FALSE(ledger.tight());
  EXPECT_TRUE(ledger.admits());
  EXPECT_EQ(ledger.make_way_for(oldest), std::nullopt);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  asked = said<acquire_for_drafter_command>();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->num_positions, 8U + 8) << "less";
  ledger.take(grant(oldest, drafters_pool, asked->ticket, 4), commands);
  EXPECT_EQ(ledger.drafter_positions(oldest), 16U);
  ledger.ended(oldest, commands);
  EXPECT_EQ(said<release_command>()->pool, drafters_pool);
}

TEST_F(memory_ledger_test, a_drafters_lease_has_a_number_of_its_own_until_it_is_returned) {
  begin(oldest, 8, 8);
  EXPECT_EQ(ledger.drafter_lease(oldest), 0U) << "it has none";
  const auto open = [&] {
    ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
    ledger.take(grant(oldest, drafters_pool, said<acquire_for_drafter_command>()->ticket, 4), commands);
    return ledger.drafter_lease(oldest);
  };
  const auto first = open();
  EXPECT_NE(first, 0U);
  ledger.tell(oldest, use_at(20));
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  ledger.take(grant(oldest, drafters_pool, said<reserve_command>()->ticket, 4), commands);
  EXPECT_EQ(ledger.drafter_lease(oldest), first) << "the lease became longer";
  ledger.preempted(oldest, commands);
  const auto ticket = ask_for_first_lease(oldest);
  ledger.take(grant(oldest, target_pool, ticket, 8), commands);
  ledger.tell(oldest, use_at(8));
  EXPECT_EQ(ledger.drafter_lease(oldest), 0U);
  EXPECT_NE(open(), first);
}

TEST_F(memory_ledger_test, final_cells_of_a_drafter_are_told_to_its_pool_and_to_its_rounds) {
  begin(oldest, 8, 8);
  ledger.note_drafter_cells(oldest, 3, commands);
  EXPECT_FALSE(said<commit_command>()) << "it has no cells there";
  ledger.want_for_drafter(oldest, drafters_pool, 1, look_ahead::chain, commands);
  const auto asked = said<acquire_for_drafter_command>();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->text_begin, 1U);
  auto first = grant(oldest, drafters_pool, asked->ticket, 4);
  first.num_cached = 7;
  first.copies = {{block_id{9}, 0, block_id{1}, 0, 3}};
  ledger.take(first, commands);
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 7U) << "from the prefix cache";
  EXPECT_EQ(ledger.drafter_copies(oldest).size(), 1U);
  ledger.note_drafter_cells(oldest, 7, commands);
  ledger.note_drafter_cells(oldest, 0, commands);
  EXPECT_FALSE(said<commit_command>()) << "nothing new";
  EXPECT_EQ(ledger.drafter_copies(oldest).size(), 1U) << "nobody is known to have made them";
  ledger.note_drafter_cells(oldest, 8, commands);
  auto told = said<commit_command>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->pool, drafters_pool);
  EXPECT_EQ(told->num_final, 8U);
  EXPECT_TRUE(ledger.drafter_copies(oldest).empty()) << "they were made, and their source may be reused";
  ledger.note_drafter_cells(oldest, 11, commands);
  EXPECT_FALSE(said<commit_command>()) << "no further block is full";
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 11U);
  ledger.note_drafter_cells(oldest, 12, commands);
  told = said<commit_command>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->num_final, 12U);
  ledger.tell(oldest, use_at(40));
  ledger.want_for_drafter(oldest, drafters_pool, 1, look_ahead::chain, commands);
  const auto more = said<reserve_command>();
  ASSERT_TRUE(more);
  ledger.take(grant(oldest, drafters_pool, more->ticket, 12), commands);
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 12U) << "a longer lease has the same cells";
  ledger.preempted(oldest, commands);
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 0U);
}

TEST_F(memory_ledger_test, a_pool_of_a_drafter_that_shares_nothing_is_told_of_no_cells) {
  begin(oldest, 8, 8);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  ledger.take(grant(oldest, drafters_pool, said<acquire_for_drafter_command>()->ticket, 4), commands);
  ledger.note_drafter_cells(oldest, 12, commands);
  EXPECT_FALSE(said<commit_command>());
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 12U) << "a new session takes them over";
}

TEST_F(memory_ledger_test, a_drafters_lease_can_be_returned_before_its_request_ends) {
  begin(oldest, 8, 8);
  ledger.return_drafter_lease(oldest, commands);
  EXPECT_FALSE(said<release_command>()) << "it has none";
  ledger.want_for_drafter(oldest, drafters_pool, 1, look_ahead::chain, commands);
  auto lease = grant(oldest, drafters_pool, said<acquire_for_drafter_command>()->ticket, 4);
  lease.num_cached = 7;
  lease.copies = {{block_id{9}, 0, block_id{1}, 0, 3}};
  ledger.take(lease, commands);
  ledger.note_submissions(oldest, std::vector<std::uint64_t>{41, 17});
  ledger.tell(oldest, use_at(20));
  ledger.want_for_drafter(oldest, drafters_pool, 1, look_ahead::chain, commands);
  const auto asked = said<reserve_command>();
  ASSERT_TRUE(asked);
  ledger.return_drafter_lease(oldest, commands);
  const auto back = said<release_command>();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->pool, drafters_pool);
  EXPECT_EQ(back->after, 17U) << "a program of the drafter's stream";
  EXPECT_EQ(ledger.take(grant(oldest, drafters_pool, asked->ticket, 12), commands), answer::stale);
  EXPECT_TRUE(ledger.drafter_blocks(oldest).empty());
  EXPECT_TRUE(ledger.drafter_copies(oldest).empty());
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 0U);
  EXPECT_EQ(ledger.drafter_lease(oldest), 0U);
  EXPECT_EQ(ledger.blocks(oldest).size(), 8U);
  ledger.ended(oldest, commands);
  EXPECT_EQ(said<release_command>()->pool, target_pool) << "and no other";
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

TEST_F(memory_ledger_test, a_restarted_pool_manager_hears_of_drafters_leases_too) {
  const auto held = [&] {
    ledger.on_pool_restarted(commands);
    return said<retain_command>()->leases;
  };
  begin(oldest, 8, 8);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  const auto lost = said<acquire_for_drafter_command>();
  EXPECT_EQ(held().size(), 1U) << "the answer may be lost";
  EXPECT_EQ(ledger.take(grant(oldest, drafters_pool, lost->ticket, 4), commands), answer::stale);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  ledger.take(grant(oldest, drafters_pool, said<acquire_for_drafter_command>()->ticket, 4), commands);
  EXPECT_EQ(held(), (std::vector<retain_command::lease>{{oldest, target_pool}, {oldest, drafters_pool}}));
  ledger.return_drafter_lease(oldest, commands);
  EXPECT_EQ(held().size(), 1U) << "its release may be lost";
}

} // namespace
} // namespace paceline::scheduling
