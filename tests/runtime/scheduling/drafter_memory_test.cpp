#include "tests/runtime/scheduling/ledger_test.hpp"

#include <vector>

namespace paceline::scheduling {
namespace {

using namespace test_support;
using answer = memory_ledger::answer;

using drafter_memory_test = memory_ledger_test;

TEST_F(drafter_memory_test, a_drafter_without_memory_harms_nobody) {
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

TEST_F(drafter_memory_test, a_drafters_lease_has_a_number_of_its_own_until_it_is_returned) {
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

TEST_F(drafter_memory_test, final_cells_of_a_drafter_are_told_to_its_pool_and_to_its_rounds) {
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

TEST_F(drafter_memory_test, a_pool_of_a_drafter_that_shares_nothing_is_told_of_no_cells) {
  begin(oldest, 8, 8);
  ledger.want_for_drafter(oldest, drafters_pool, {}, look_ahead::chain, commands);
  ledger.take(grant(oldest, drafters_pool, said<acquire_for_drafter_command>()->ticket, 4), commands);
  ledger.note_drafter_cells(oldest, 12, commands);
  EXPECT_FALSE(said<commit_command>());
  EXPECT_EQ(ledger.num_drafter_cells(oldest), 12U) << "a new session takes them over";
}

TEST_F(drafter_memory_test, a_drafters_lease_can_be_returned_before_its_request_ends) {
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

TEST_F(drafter_memory_test, a_restarted_pool_manager_hears_of_drafters_leases_too) {
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
