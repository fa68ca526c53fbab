#include "runtime/scheduling/round.hpp"

#include <algorithm>

namespace paceline::scheduling {

std::uint32_t draft_limit(const plan_item& item, std::uint32_t block_size, std::uint32_t context_length) {
  const auto& sequence = *item.target;
  const auto room = [length = sequence.length()](std::size_t capacity) {
    return capacity > length ? static_cast<std::uint32_t>(capacity - length) : 0U;
  };
  std::uint32_t limit = item.draft_length;
  limit = std::min(limit, sequence.remaining() > 0 ? sequence.remaining() - 1 : 0U); // the round adds one token itself
  limit = std::min(limit, room(item.blocks.size() * block_size));
  limit = std::min(limit, room(context_length));
  return limit;
}

} // namespace paceline::scheduling
