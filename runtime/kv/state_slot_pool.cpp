#include "runtime/kv/state_slot_pool.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::kv {

state_slot_pool::state_slot_pool(std::uint32_t num_slots, std::uint32_t num_blocks)
    : slots_(num_slots, num_slots), snapshots_(num_slots), slot_of_(num_blocks, none) {
  slots_.add_slab();
  taken_.reserve(num_slots);
}

bool state_slot_pool::allocate(std::uint32_t num, std::vector<state_slot>& out) {
  if (num > num_free() + num_idle()) return false;
  PACELINE_CHECK(out.capacity() - out.size() >= num,
                 "room for the slots must be reserved before they are taken");
  while (num_free() < num) evict_one();
  taken_.clear();
  slots_.allocate(num, taken_);
  for (const block_id slot : taken_) out.emplace_back(slot.value);
  return true;
}

/// The search is linear: there are few slots, and eviction happens only when they are short.
void state_slot_pool::evict_one() {
  std::uint32_t oldest = none;
  for (std::uint32_t s = 0; s < num_slots(); ++s)
    if (slots_.state_of(block_id{s}) == block_state::cached &&
        (oldest == none || snapshots_[s].last_use < snapshots_[oldest].last_use))
      oldest = s;
  PACELINE_CHECK(oldest != none, "there is an idle snapshot");
  forget(block_id{snapshots_[oldest].block});
}

void state_slot_pool::remove_owner(state_slot slot, block_owner owner, std::uint64_t now) {
  snapshots_[slot.value].last_use = now;
  slots_.remove_owner(block_id{slot.value}, owner);
}

std::optional<state_slot> state_slot_pool::snapshot_after(block_id block) const {
  const std::uint32_t slot = slot_of_.at(block.value);
  return slot == none ? std::nullopt : std::optional(state_slot{slot});
}

void state_slot_pool::add_snapshot(block_id block, state_slot slot) {
  PACELINE_CHECK(slot_of_.at(block.value) == none && snapshots_.at(slot.value).block == none,
                 "block " + to_string(block) + " has a snapshot, or slot " + to_string(slot) + " is one");
  slots_.add_owner(block_id{slot.value}, block_owner::index);
  slot_of_[block.value] = slot.value;
  snapshots_[slot.value].block = block.value;
  ++num_snapshots_;
}

void state_slot_pool::forget(block_id block) {
  const std::uint32_t slot = std::exchange(slot_of_.at(block.value), none);
  if (slot == none) return;
  snapshots_[slot].block = none;
  slots_.remove_owner(block_id{slot}, block_owner::index);
  --num_snapshots_;
}

expected<void> state_slot_pool::check_invariants() const {
  const auto broken = [](const std::string& what) { return error(errc::internal, "states: " + what); };
  if (auto ok = slots_.check_invariants(); !ok) return ok;
  std::uint32_t count = 0;
  for (std::uint32_t s = 0; s < num_slots(); ++s) {
    const bool is_snapshot = snapshots_[s].block != none;
    if (is_snapshot != (slots_.num_owners(block_id{s}, block_owner::index) > 0))
      return broken("slot " + std::to_string(s) + " disagrees with the index");
    if (is_snapshot && slot_of_[snapshots_[s].block] != s)
      return broken("slot " + std::to_string(s) + " is the snapshot of another block");
    count += is_snapshot ? 1 : 0;
  }
  if (count != num_snapshots_) return broken("counts differ");
  return {};
}

} // namespace paceline::kv
