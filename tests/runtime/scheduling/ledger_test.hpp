#pragma once

#include "runtime/scheduling/memory_ledger.hpp"
#include "tests/runtime/scheduling/decided.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

namespace paceline::scheduling::test_support {

inline constexpr std::uint32_t ledger_block_size = 4;
inline constexpr request_id oldest{1}, middle{2}, youngest{3};
inline constexpr pool_number drafters_pool{1};

inline lease_event refusal(request_id request, std::uint64_t ticket, pool_number pool = target_pool) {
  return {request, pool, ticket, false, {}, 0, {}};
}

/// A request of `length` tokens; its trees need 24 more positions, its chains 8, and one token per round 2.
inline memory_use use_at(std::uint32_t length, std::uint32_t num_in_flight = 0) {
  memory_use use;
  use.num_in_flight = num_in_flight;
  use.needed = length;
  use.target = {length + 2, length + 8, length + 24};
  use.drafter = {0, length + 8, length + 24};
  return use;
}

/// A ledger whose commands a test reads and answers as a pool manager would.
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
    ASSERT_EQ(ledger.take(grant(request, target_pool, ticket, num_blocks), commands),
              memory_ledger::answer::granted);
    ledger.tell(request, use_at(length));
  }
  /// Its question to the target's pool, 0 for none. The answer is `granted` blocks, or a refusal.
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

  memory_ledger ledger{ledger_block_size};
  memory_ledger::commands commands;
};

} // namespace paceline::scheduling::test_support
