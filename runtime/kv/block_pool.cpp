#include "runtime/kv/block_pool.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>

namespace paceline::kv {

namespace {

/// Number of slabs of a pool; also checks the constructor's arguments before a member uses them.
std::size_t count_slabs(std::uint32_t num_blocks, std::uint32_t slab_blocks) {
  PACELINE_CHECK(num_blocks > 0 && slab_blocks > 0, "a pool needs blocks and slabs");
  return (std::size_t{num_blocks} + slab_blocks - 1) / slab_blocks;
}

} // namespace

block_pool::block_pool(std::uint32_t num_blocks, std::uint32_t slab_blocks)
    : slab_blocks_(slab_blocks), blocks_(num_blocks), free_(count_slabs(num_blocks, slab_blocks)),
      absent_(free_.size()), open_(free_.size()), empty_(free_.size()) {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    free_[i].reserve(size_of_slab(i));
    absent_.set(i, true);
  }
  counts_[static_cast<std::size_t>(block_state::absent)] = num_blocks;
}

std::uint32_t block_pool::size_of_slab(std::size_t slab) const noexcept {
  const auto first = slab * slab_blocks_;
  return static_cast<std::uint32_t>(std::min<std::size_t>(slab_blocks_, blocks_.size() - first));
}

void block_pool::note_free_blocks(std::size_t slab) noexcept {
  open_.set(slab, !free_[slab].empty());
  empty_.set(slab, free_[slab].size() == size_of_slab(slab));
}

const block_pool::block_owners& block_pool::owners_of(block_id block) const {
  PACELINE_CHECK(block.value < blocks_.size(),
                 "block " + to_string(block) + " of " + std::to_string(blocks_.size()));
  return blocks_[block.value];
}

block_state block_pool::state_of(block_id block) const {
  const auto& owners = owners_of(block);
  if (owners.tables > 0) return block_state::active;
  if (owners.releases > 0) return block_state::deferred;
  if (owners.indexed) return block_state::cached;
  return absent_.contains(slab_of(block)) ? block_state::absent : block_state::free;
}

std::uint32_t block_pool::num_owners(block_id block, block_owner owner) const {
  const auto& owners = owners_of(block);
  switch (owner) {
  case block_owner::table:
    return owners.tables;
  case block_owner::release:
    return owners.releases;
  case block_owner::index:
    return owners.indexed ? 1 : 0;
  }
  return 0;
}

void block_pool::move_count(block_state from, block_state to, std::uint32_t num) noexcept {
  counts_[static_cast<std::size_t>(from)] -= num;
  counts_[static_cast<std::size_t>(to)] += num;
}

std::uint32_t block_pool::next_slab_blocks() const noexcept {
  const auto slab = absent_.first();
  return slab == slab_set::none ? 0 : size_of_slab(slab);
}

void block_pool::add_slab() {
  const auto slab = absent_.first();
  PACELINE_CHECK(slab != slab_set::none, "all slabs are here");
  const auto size = size_of_slab(slab);
  absent_.set(slab, false);
  // Filled from the end, so that blocks are allocated in ascending order.
  for (auto i = size; i-- > 0;)
    free_[slab].push_back(block_id{static_cast<std::uint32_t>(slab * slab_blocks_ + i)});
  note_free_blocks(slab);
  move_count(block_state::absent, block_state::free, size);
}

std::uint32_t block_pool::empty_slab_blocks() const noexcept {
  const auto slab = empty_.last();
  return slab == slab_set::none ? 0 : size_of_slab(slab);
}

void block_pool::remove_empty_slab() {
  const auto slab = empty_.last();
  PACELINE_CHECK(slab != slab_set::none, "no slab is empty");
  free_[slab].clear();
  absent_.set(slab, true);
  open_.set(slab, false);
  empty_.set(slab, false);
  move_count(block_state::free, block_state::absent, size_of_slab(slab));
}

bool block_pool::allocate(std::uint32_t num, std::vector<block_id>& out) {
  if (num > count(block_state::free)) return false;
  PACELINE_CHECK(out.capacity() - out.size() >= num,
                 "room for the blocks must be reserved before they are taken");
  for (auto left = num; left > 0;) {
    const auto slab = open_.first();
    for (auto& free = free_[slab]; left > 0 && !free.empty(); --left) {
      blocks_[free.back().value].tables = 1;
      out.push_back(free.back());
      free.pop_back();
    }
    note_free_blocks(slab);
  }
  move_count(block_state::free, block_state::active, num);
  return true;
}

void block_pool::add_owner(block_id block, block_owner owner) {
  const auto before = state_of(block);
  PACELINE_CHECK(before < block_state::free, "block " + to_string(block) + " has no owner to share with");
  auto& owners = blocks_[block.value];
  switch (owner) {
  case block_owner::table:
    ++owners.tables;
    break;
  case block_owner::release:
    ++owners.releases;
    break;
  case block_owner::index:
    PACELINE_CHECK(!owners.indexed, "block " + to_string(block) + " is indexed already");
    owners.indexed = true;
    break;
  }
  move_count(before, state_of(block));
}

block_state block_pool::remove_owner(block_id block, block_owner owner) {
  PACELINE_CHECK(num_owners(block, owner) > 0, "block " + to_string(block) + " has no such owner");
  const auto before = state_of(block);
  auto& owners = blocks_[block.value];
  switch (owner) {
  case block_owner::table:
    --owners.tables;
    break;
  case block_owner::release:
    --owners.releases;
    break;
  case block_owner::index:
    owners.indexed = false;
    break;
  }
  const auto after = state_of(block);
  move_count(before, after);
  if (after == block_state::free) {
    free_[slab_of(block)].push_back(block);
    note_free_blocks(slab_of(block));
  }
  return after;
}

expected<void> block_pool::check_invariants() const {
  const auto broken = [](std::string what) {
    return error(errc::internal, "block pool: " + std::move(what));
  };
  std::array<std::uint32_t, num_block_states> counts{};
  for (std::uint32_t i = 0; i < blocks_.size(); ++i)
    ++counts[static_cast<std::size_t>(state_of(block_id{i}))];
  if (counts != counts_) return broken("counts per state do not match the blocks");
  std::vector<bool> seen(blocks_.size());
  std::size_t num_listed = 0;
  for (std::size_t slab = 0; slab < free_.size(); ++slab) {
    for (const auto block : free_[slab]) {
      if (block.value >= blocks_.size() || slab_of(block) != slab)
        return broken("a free list has a foreign block");
      if (seen[block.value]) return broken("block " + to_string(block) + " is listed free twice");
      if (state_of(block) != block_state::free)
        return broken("block " + to_string(block) + " is listed free but owned");
      seen[block.value] = true;
      ++num_listed;
    }
    const bool here = !absent_.contains(slab);
    if (open_.contains(slab) != !free_[slab].empty() ||
        empty_.contains(slab) != (here && free_[slab].size() == size_of_slab(slab)))
      return broken("slab " + std::to_string(slab) + " is filed wrongly");
  }
  if (num_listed != count(block_state::free)) return broken("a free block is on no list");
  for (std::uint32_t i = 0; i < blocks_.size(); ++i)
    if (absent_.contains(slab_of(block_id{i})) && state_of(block_id{i}) != block_state::absent)
      return broken("block " + std::to_string(i) + " is owned but its slab is not here");
  return {};
}

} // namespace paceline::kv
