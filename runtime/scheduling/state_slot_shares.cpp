#include "runtime/scheduling/state_slot_shares.hpp"

#include <algorithm>

namespace paceline::scheduling {

namespace {

/// `from - by`, at least 0.
std::uint32_t less(std::uint32_t from, std::uint64_t by) noexcept {
  return from - static_cast<std::uint32_t>(std::min<std::uint64_t>(from, by));
}

} // namespace

bool keeps_snapshot(const snapshot_places& at, std::uint32_t length, std::uint32_t num_spare) noexcept {
  if (length == 0 || num_spare == 0) return false;
  if (length == at.prompt_end) return true;
  const std::uint32_t for_prompt = length < at.prompt_end ? 1 : 0;
  if (length == at.common) return num_spare > for_prompt;
  const std::uint32_t for_common = length < at.common && at.common != at.prompt_end ? 1 : 0;
  return length % at.interval == 0 && num_spare > for_prompt + for_common;
}

slot_share share_of(const slot_demand& demand) noexcept {
  const auto max_running = std::max(demand.max_running, 1U);
  const auto left = less(demand.num_slots, demand.num_held);
  const auto still_to_come = less(max_running - 1, demand.num_others);

  const auto first_snapshot = std::min(demand.num_snapshots, 1U);
  const bool has_one_each = demand.num_slots / max_running > least_row_states(0);
  const auto each = least_row_states(0) + (has_one_each ? first_snapshot : 0);
  const auto most = std::max({demand.least, std::min(demand.least + first_snapshot, left),
                              less(left, std::uint32_t{each * still_to_come})});
  const auto first = std::min(first_snapshot, most - demand.least);

  slot_share share;
  share.for_rows = std::min(demand.least + demand.num_nodes, most - first);
  const auto for_others = (least_row_states(0) + demand.num_nodes + 1) * still_to_come;
  share.for_snapshots =
      std::min(demand.num_snapshots, std::max(first, less(left, std::uint32_t{share.for_rows + for_others})));
  return share;
}

} // namespace paceline::scheduling
