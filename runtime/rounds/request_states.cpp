#include "runtime/rounds/request_states.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::rounds {

void request_states::restart(const kv::state_lease& lease, std::uint32_t num_for_rows) {
  PACELINE_CHECK(lease.slots.size() >= num_for_rows && num_for_rows >= 2,
                 "a lease of states has slots for a row and for the state before it");
  slots_ = lease.slots;
  current_ = lease.initial;
  num_spare_ = static_cast<std::uint32_t>(lease.slots.size()) - num_for_rows;
  collect_free({});
}

state_slot request_states::next() {
  PACELINE_CHECK(num_used_ < free_.size(), "a round has more rows with states than slots");
  return free_[num_used_++];
}

void request_states::commit(state_slot slot) {
  current_ = slot;
  collect_free({});
}

void request_states::make_snapshot(state_slot slot) {
  const auto place = std::ranges::find(slots_, slot);
  if (place == slots_.end()) return;
  PACELINE_CHECK(num_spare_ > 0, "no state can become a snapshot");
  --num_spare_;
  slots_.erase(place);
  std::erase(free_, slot);
  num_used_ = 0;
}

void request_states::hold(std::span<const state_slot> slots) { collect_free(slots); }

void request_states::collect_free(std::span<const state_slot> in_use) {
  free_.clear();
  for (const auto slot : slots_)
    if (slot != current_ && std::ranges::find(in_use, slot) == in_use.end()) free_.push_back(slot);
  num_used_ = 0;
}

} // namespace paceline::rounds
