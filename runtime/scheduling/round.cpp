#include "runtime/scheduling/round.hpp"

#include <algorithm>

namespace paceline::scheduling {

draft_bounds draft_limit(const plan_item& item, std::uint32_t block_size, std::uint32_t context_length) {
  return draft_limit(item, item.target->length(), item.target->remaining(), block_size, context_length);
}

draft_bounds draft_limit(const plan_item& item, std::uint32_t length, std::uint32_t remaining,
                         std::uint32_t block_size, std::uint32_t context_length) {
  const auto room = [length](std::size_t capacity) {
    return capacity > length ? static_cast<std::uint32_t>(capacity - length) : 0U;
  };
  draft_bounds limit;
  limit.nodes =
      std::min({item.max_nodes, speculation::token_tree::max_nodes, room(item.blocks.size() * block_size)});
  // Levels are positions, nodes only cells. The round adds one token itself.
  const auto levels = std::min(room(context_length), remaining > 0 ? remaining - 1 : 0U);
  limit.length = std::min({item.draft_length, levels, limit.nodes});
  limit.probe_depth = std::max(limit.length, room(context_length));
  if (limit.length == 0) limit.nodes = 0;
  return limit;
}

draft_bounds worker_limit(const plan_item& item, draft_bounds limit) {
  limit.length = std::min(limit.length, item.worker_length);
  if (limit.length == 0) limit.nodes = 0;
  return limit;
}

} // namespace paceline::scheduling
