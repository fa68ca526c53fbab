#include "runtime/speculation/drafters/target_prefix.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline::speculation {

namespace {

/// Cells that the lane's session lacks and the target's pool has.
std::size_t num_missing(const draft_lane& lane) {
  const target_cells& there = lane.task->target_cells;
  if (lane.bounds.depth == 0 || there.kv == nullptr) return 0;
  const std::size_t end = std::min<std::size_t>(lane.context.size() - 1, there.num_final);
  return end - std::min(end, lane.session->cached().size());
}

/// The next `count` cells of the lane's context, block by block.
void copy_cells(device::ops& ops, model::kv_storage& kv, draft_lane& lane, std::size_t count) {
  const target_cells& there = lane.task->target_cells;
  const std::uint32_t size = kv.block_size();
  PACELINE_CHECK(there.kv->block_size() == size, "two pools of a model have blocks of one size");
  auto at = static_cast<std::uint32_t>(lane.session->cached().size());
  const std::uint32_t end = at + static_cast<std::uint32_t>(count);
  PACELINE_CHECK(end <= there.blocks.size() * size, "the target has no cells for its tokens");
  std::vector<device::kv_copy> copies;
  while (at < end) {
    const std::uint32_t offset = at % size, run = std::min(size - offset, end - at);
    copies.push_back({there.blocks[at / size], offset, lane.task->blocks[at / size], offset, run});
    at += run;
  }
  kv.copy_from(ops, *there.kv, copies);
  for (std::size_t i = 0; i < count; ++i) lane.session->feed(lane.context[lane.session->cached().size()]);
}

} // namespace

void take_target_cells(device::ops& ops, model::kv_storage& kv, std::span<draft_lane> lanes) {
  std::vector<draft_lane*> lacking;
  for (draft_lane& lane : lanes)
    if (num_missing(lane) > 0) lacking.push_back(&lane);
  std::stable_sort(lacking.begin(), lacking.end(),
                   [](const auto* a, const auto* b) { return num_missing(*a) < num_missing(*b); });
  std::size_t budget = max_copied_cells;
  for (draft_lane* const lane : lacking) {
    const std::size_t missing = num_missing(*lane), count = std::min(missing, budget);
    if (count > 0) copy_cells(ops, kv, *lane, count);
    budget -= count;
    if (count == missing) continue;
    lane->bounds = {};
    lane->task->result.catching_up = true;
  }
}

} // namespace paceline::speculation
