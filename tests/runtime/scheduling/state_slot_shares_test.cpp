// The shares of state slots, and which states are kept as snapshots.
#include "runtime/scheduling/state_slot_shares.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace paceline::scheduling {
namespace {

/// A request that drafts six nodes and may keep four snapshots, alone in a pool of 20 slots.
slot_demand lone_demand() {
  slot_demand demand;
  demand.num_slots = 20;
  demand.least = least_row_states(0);
  demand.num_nodes = 6;
  demand.num_snapshots = 4;
  return demand;
}

TEST(state_slot_shares, a_lone_request_gets_all_that_it_can_use) {
  auto demand = lone_demand();
  EXPECT_EQ(share_of(demand), (slot_share{8, 4}));
  demand.max_running = 0; // counts as one
  EXPECT_EQ(share_of(demand), (slot_share{8, 4}));
}

TEST(state_slot_shares, snapshots_get_what_rows_leave_but_the_first_one_comes_before_drafts) {
  auto demand = lone_demand();
  demand.num_slots = 10;
  EXPECT_EQ(share_of(demand), (slot_share{8, 2}));
  demand.num_slots = 9;
  EXPECT_EQ(share_of(demand), (slot_share{8, 1}));
  demand.num_slots = 8;
  EXPECT_EQ(share_of(demand), (slot_share{7, 1}));
  demand.num_slots = 3;
  EXPECT_EQ(share_of(demand), (slot_share{2, 1}));
  demand.num_slots = 2;
  EXPECT_EQ(share_of(demand), (slot_share{2, 0}));
}

TEST(state_slot_shares, without_slots_a_request_asks_for_its_minimum) {
  auto demand = lone_demand();
  demand.max_running = 4;
  demand.num_others = 3;
  for (const std::uint64_t held : {20U, 21U, 1'000U}) {
    demand.num_held = held;
    EXPECT_EQ(share_of(demand), (slot_share{2, 0})) << held;
  }
  demand.num_held = std::uint64_t{1} << 32U;
  EXPECT_EQ(share_of(demand), (slot_share{2, 0})) << "the sum has more than 32 bits";
}

TEST(state_slot_shares, further_requests_are_left_their_minimum_and_a_snapshot_if_all_can_have_one) {
  auto demand = lone_demand();
  demand.max_running = 4;
  demand.num_slots = 12; // three slots for each
  EXPECT_EQ(share_of(demand), (slot_share{2, 1}));
  demand.num_slots = 13;
  EXPECT_EQ(share_of(demand), (slot_share{3, 1}));
  demand.num_slots = 11; // two for each of the others
  EXPECT_EQ(share_of(demand), (slot_share{4, 1}));
  demand.num_slots = 9;
  EXPECT_EQ(share_of(demand), (slot_share{2, 1})) << "the first one's snapshot, and two slots for each other";
}

TEST(state_slot_shares, further_snapshots_wait_until_all_can_draft_as_much) {
  auto demand = lone_demand();
  demand.max_running = 4; // 8 slots for rows and 1 for a snapshot each: 36
  for (const auto& [num_slots, for_snapshots] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{20, 1}, {36, 1}, {37, 2}, {38, 3}, {60, 4}}) {
    demand.num_slots = num_slots;
    EXPECT_EQ(share_of(demand), (slot_share{8, for_snapshots})) << num_slots;
  }
}

TEST(state_slot_shares, what_others_hold_is_not_shared_and_they_are_not_waited_for) {
  auto demand = lone_demand();
  demand.max_running = 2;
  EXPECT_EQ(share_of(demand), (slot_share{8, 3})) << "20 - 8, and 9 for the other one";
  demand.num_others = 1;
  EXPECT_EQ(share_of(demand), (slot_share{8, 4})) << "nobody may still come";
  demand.num_held = 10;
  EXPECT_EQ(share_of(demand), (slot_share{8, 2}));
  demand.num_held = 14;
  EXPECT_EQ(share_of(demand), (slot_share{5, 1}));
  demand.num_others = 7; // more than may run
  EXPECT_EQ(share_of(demand), (slot_share{5, 1}));
}

TEST(state_slot_shares, without_snapshots_all_slots_are_for_rows) {
  auto demand = lone_demand();
  demand.num_snapshots = 0;
  EXPECT_EQ(share_of(demand), (slot_share{8, 0}));
  demand.num_slots = 8;
  EXPECT_EQ(share_of(demand), (slot_share{8, 0}));
  demand.num_slots = 12;
  demand.max_running = 4;
  EXPECT_EQ(share_of(demand), (slot_share{6, 0})) << "two for each of the others";
}

TEST(state_slot_shares, a_beam_search_never_asks_for_fewer_than_its_hypotheses_need) {
  auto demand = lone_demand();
  demand.least = least_row_states(3);
  demand.num_nodes = 5;
  demand.num_snapshots = 1;
  EXPECT_EQ(share_of(demand), (slot_share{7 + 5, 1}));
  demand.max_running = 4;
  demand.num_slots = 16;
  EXPECT_EQ(share_of(demand), (slot_share{7, 1})) << "its snapshot takes one of the others' nine";
  demand.num_slots = 5;
  EXPECT_EQ(share_of(demand), (slot_share{7, 0}));
}

TEST(state_slot_shares, requests_that_arrive_in_turn_all_get_their_minimum) {
  for (std::uint32_t running = 1; running <= 9; ++running)
    for (std::uint32_t nodes = 0; nodes <= 12; ++nodes)
      for (std::uint32_t num_slots = 3 * running; num_slots <= 200; ++num_slots) {
        auto demand = lone_demand();
        demand.num_slots = num_slots, demand.max_running = running, demand.num_nodes = nodes;
        for (; demand.num_others < running; ++demand.num_others) {
          const auto share = share_of(demand);
          ASSERT_GE(share.for_rows, 2U);
          ASSERT_GE(share.for_snapshots, 1U);
          ASSERT_LE(share.for_rows, 2 + nodes);
          ASSERT_LE(share.for_snapshots, demand.num_snapshots);
          demand.num_held += share.for_rows + share.for_snapshots;
        }
        ASSERT_LE(demand.num_held, num_slots) << running << " running, " << nodes << " nodes";
      }
}

TEST(snapshots, are_as_many_as_regular_places_and_two_more) {
  EXPECT_EQ(max_snapshots(0, 8), 2U);
  EXPECT_EQ(max_snapshots(7, 8), 2U);
  EXPECT_EQ(max_snapshots(8, 8), 3U);
  EXPECT_EQ(max_snapshots(18, 8), 4U);
}

TEST(snapshots, the_end_of_a_prompt_is_before_what_the_next_turn_does_not_repeat) {
  EXPECT_EQ(prompt_end_of(40, 16), 32U);
  EXPECT_EQ(prompt_end_of(39, 16), 16U) << "the second block ends 7 tokens before the end";
  EXPECT_EQ(prompt_end_of(24, 16), 16U);
  EXPECT_EQ(prompt_end_of(23, 16), 16U) << "for the same prompt";
  EXPECT_EQ(prompt_end_of(17, 16), 16U);
  EXPECT_EQ(prompt_end_of(16, 16), 0U) << "the last token is computed for its logits";
  EXPECT_EQ(prompt_end_of(1, 16), 0U);
}

/// The lengths up to 40 at which a text with so many spare slots at each of them keeps a snapshot.
std::vector<std::uint32_t> kept(const snapshot_places& at, std::uint32_t num_spare) {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t length = 0; length <= 40; ++length)
    if (keeps_snapshot(at, length, num_spare)) lengths.push_back(length);
  return lengths;
}

using lengths = std::vector<std::uint32_t>;

TEST(snapshots, one_slot_is_left_for_the_end_of_the_prompt) {
  const snapshot_places at{.prompt_end = 28, .common = 12, .interval = 16};
  EXPECT_EQ(kept(at, 0), lengths{});
  EXPECT_EQ(kept(at, 1), (lengths{28, 32})) << "regular places after it need no other slot";
}

TEST(snapshots, a_second_slot_is_for_the_end_of_the_common_text) {
  const snapshot_places at{.prompt_end = 28, .common = 20, .interval = 8};
  EXPECT_EQ(kept(at, 2), (lengths{20, 24, 28, 32, 40}));
  EXPECT_EQ(kept(at, 3), (lengths{8, 16, 20, 24, 28, 32, 40}));
}

TEST(snapshots, places_that_coincide_take_one_slot) {
  EXPECT_EQ(kept({.prompt_end = 24, .common = 24, .interval = 8}, 1), (lengths{24, 32, 40}));
  EXPECT_EQ(kept({.prompt_end = 24, .common = 24, .interval = 8}, 2), (lengths{8, 16, 24, 32, 40}));
}

TEST(snapshots, without_a_common_text_regular_places_leave_one_slot) {
  const snapshot_places at{.prompt_end = 28, .common = 0, .interval = 8};
  EXPECT_EQ(kept(at, 1), (lengths{28, 32, 40}));
  EXPECT_EQ(kept(at, 2), (lengths{8, 16, 24, 28, 32, 40}));
}

TEST(snapshots, a_prompt_of_one_block_has_no_end_of_its_own) {
  EXPECT_EQ(kept({.prompt_end = 0, .common = 0, .interval = 16}, 1), (lengths{16, 32}));
}

} // namespace
} // namespace paceline::scheduling
