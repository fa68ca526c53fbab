#include "runtime/kv/block_pool.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>

namespace paceline::kv {

block_pool::block_pool(std::uint32_t num_blocks, std::uint32_t slab_blocks) : slab_blocks_(slab_blocks) {
  PACELINE_CHECK(num_blocks > 0 && slab_blocks > 0, "a pool needs blocks and slabs");
  blocks_.resize(num_blocks);
  slabs_.resize((std::size_t{num_blocks} + slab_blocks - 1) / slab_blocks);
  for (std::size_t i = 0; i < slabs_.size(); ++i) slabs_[i].free.reserve(size_of_slab(i));
  counts_[static_cast<std::size_t>(block_state::absent)] = num_blocks;
}

std::uint32_t block_pool::size_of_slab(std::size_t slab) const noexcept {
  const auto first = slab * slab_blocks_;
  return static_cast<std::uint32_t>(std::min<std::size_t>(slab_blocks_, blocks_.size() - first));
}

const block_pool::block_owners& block_pool::owners_of(block_id block) const {
  PACELINE_CHECK(block.value < blocks_.size(),
                 "block " + to_string(block) + " of " + std::to_string(blocks_.size()));
  return blocks_[block.value];
}

block_state block_pool::state_of(block_id block) const {
  const auto& owners = owners_of(block);
  if (owners.tables > 0) return block_state::active;
  if (owners.flights > 0) return block_state::deferred;
  if (owners.indexed) return block_state::cached;
  return slab_of(block).here ? block_state::free : block_state::absent;
}

std::uint32_t block_pool::num_owners(block_id block, block_owner owner) const {
  const auto& owners = owners_of(block);
  switch (owner) {
  case block_owner::table:
    return owners.tables;
  case block_owner::flight:
    return owners.flights;
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
  for (std::size_t i = 0; i < slabs_.size(); ++i)
    if (!slabs_[i].here) return size_of_slab(i);
  return 0;
}

void block_pool::add_slab() {
  const auto absent = std::find_if(slabs_.begin(), slabs_.end(), [](const slab& s) { return !s.here; });
  PACELINE_CHECK(absent != slabs_.end(), "all slabs are here");
  const auto index = static_cast<std::size_t>(absent - slabs_.begin());
  const auto size = size_of_slab(index);
  absent->here = true;
  // Filled from the end, so that blocks leave in ascending order.
  for (auto i = size; i-- > 0;)
    absent->free.push_back(block_id{static_cast<std::uint32_t>(index * slab_blocks_ + i)});
  move_count(block_state::absent, block_state::free, size);
}

std::uint32_t block_pool::empty_slab_blocks() const noexcept {
  for (std::size_t i = slabs_.size(); i-- > 0;)
    if (slabs_[i].here && slabs_[i].free.size() == size_of_slab(i)) return size_of_slab(i);
  return 0;
}

void block_pool::remove_empty_slab() {
  for (std::size_t i = slabs_.size(); i-- > 0;) {
    if (!slabs_[i].here || slabs_[i].free.size() != size_of_slab(i)) continue;
    slabs_[i].here = false;
    slabs_[i].free.clear();
    move_count(block_state::free, block_state::absent, size_of_slab(i));
    return;
  }
  PACELINE_CHECK(false, "no slab is empty");
}

bool block_pool::allocate(std::uint32_t num, std::vector<block_id>& out) {
  if (num > count(block_state::free)) return false;
  PACELINE_CHECK(out.capacity() - out.size() >= num,
                 "room for the blocks must be reserved before they are taken");
  auto left = num;
  for (auto& slab : slabs_) {
    for (; left > 0 && !slab.free.empty(); --left) {
      const auto block = slab.free.back();
      slab.free.pop_back();
      blocks_[block.value].tables = 1;
      out.push_back(block);
    }
    if (left == 0) break;
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
  case block_owner::flight:
    ++owners.flights;
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
  case block_owner::flight:
    --owners.flights;
    break;
  case block_owner::index:
    owners.indexed = false;
    break;
  }
  const auto after = state_of(block);
  move_count(before, after);
  if (after == block_state::free) slab_of(block).free.push_back(block);
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
  for (const auto& slab : slabs_)
    for (const auto block : slab.free) {
      if (block.value >= blocks_.size() || &slab_of(block) != &slab)
        return broken("a free list has a foreign block");
      if (seen[block.value]) return broken("block " + to_string(block) + " is listed free twice");
      if (state_of(block) != block_state::free)
        return broken("block " + to_string(block) + " is listed free but owned");
      seen[block.value] = true;
      ++num_listed;
    }
  if (num_listed != count(block_state::free)) return broken("a free block is on no list");
  for (std::uint32_t i = 0; i < blocks_.size(); ++i)
    if (!slab_of(block_id{i}).here && state_of(block_id{i}) != block_state::absent)
      return broken("block " + std::to_string(i) + " is owned but its slab is not here");
  return {};
}

} // namespace paceline::kv
