#include "runtime/scheduling/round.hpp"

#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/state_slot_shares.hpp"

#include <algorithm>

namespace paceline::scheduling {

std::uint32_t spare_blocks(std::uint32_t draft_length, std::uint32_t num_guesses,
                           std::uint32_t block_size) noexcept {
  if (num_guesses == 0 || draft_length == 0) return 0;
  // Counted from the block of the first draft token on: the text before it in that block, the draft, the
  // token after the draft, and the next draft.
  const auto one = (block_size - 1 + 2 * draft_length + 1 + block_size - 1) / block_size;
  return one * num_guesses * (draft_length + 1);
}

draft_bounds draft_limit(const plan_item& item, std::uint32_t block_size, std::uint32_t context_length) {
  return draft_limit(item, item.request.log->length(), item.request.log->remaining(), block_size,
                     context_length);
}

draft_bounds draft_limit(const plan_item& item, std::uint32_t length, std::uint32_t remaining,
                         std::uint32_t block_size, std::uint32_t context_length) {
  const auto room = [length](std::size_t capacity) {
    return capacity > length ? static_cast<std::uint32_t>(capacity - length) : 0U;
  };
  draft_bounds limit;
  limit.rows =
      std::min({item.max_nodes, speculation::draft::max_rows, room(item.blocks.size() * block_size)});
  limit.nodes = std::min(limit.rows, speculation::token_tree::max_nodes);
  // Besides the state before the round, each node and the last committed token leave a state.
  if (item.states) limit.nodes = std::min(limit.nodes, nodes_in_states(item.num_row_states));
  // Each level takes a position, and each node takes only a cell. The round itself adds one more token.
  const auto levels = std::min(room(context_length), remaining > 0 ? remaining - 1 : 0U);
  limit.length = std::min({item.draft_length, levels, limit.nodes});
  limit.probe_depth = std::max(limit.length, room(context_length));
  if (limit.length == 0) limit.nodes = limit.rows = 0;
  return limit;
}

draft_bounds worker_limit(const plan_item& item, draft_bounds limit) {
  limit.length = std::min(limit.length, item.worker_length);
  if (limit.length == 0) limit.nodes = limit.rows = 0;
  return limit;
}

} // namespace paceline::scheduling
