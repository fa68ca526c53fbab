#include "runtime/base/check.hpp"
#include "runtime/kv/pool_book.hpp"

#include <algorithm>
#include <utility>

namespace paceline::kv {

void pool_book::hold(block_id block) {
  if (blocks.state_of(block) == block_state::cached) index->set_idle(block, false);
  blocks.add_owner(block, block_owner::table);
}

void pool_book::drop(block_id block, block_owner owner, std::uint64_t now) {
  if (blocks.remove_owner(block, owner) == block_state::cached) index->set_idle(block, true, now);
}

std::vector<prefix_index::node_ref> pool_book::find_prefix(std::span<const token_id> tokens,
                                                           std::uint32_t num_prompt_tokens,
                                                           std::string_view salt) const {
  std::vector<prefix_index::node_ref> path;
  if (!index) return path;
  const auto num_full = tokens.size() / config.block_size;
  path.reserve(num_full);
  prefix_index::node_ref last;
  for (std::size_t i = 0; i < num_full; ++i) {
    const auto node = index->find(last, salt, prompt_cells(i, num_prompt_tokens),
                                  tokens.subspan(i * config.block_size, config.block_size));
    if (!node) break;
    path.push_back(last = *node);
  }
  return path;
}

void pool_book::publish(block_table& table) {
  if (!index) return;
  if (!index->contains(table.published)) {
    // Another request's copy of this prefix was evicted; this one replaces it.
    table.published = {};
    table.num_published = 0;
  }
  const auto tokens = std::span<const token_id>(table.tokens);
  for (; std::uint64_t{table.num_published + 1} * config.block_size <= table.length; ++table.num_published) {
    const auto i = table.num_published;
    const auto content = tokens.subspan(std::size_t{i} * config.block_size, config.block_size);
    const auto cells = prompt_cells(i, table.num_prompt_tokens);
    if (const auto known = index->find(table.published, *table.salt, cells, content)) {
      table.published = *known;
      continue;
    }
    table.published = index->insert(table.published, table.salt, cells, content, table.blocks[i]);
    blocks.add_owner(table.blocks[i], block_owner::index);
  }
}

std::optional<state_slot> pool_book::end_at_snapshot(std::vector<prefix_index::node_ref>& path,
                                                     std::size_t most, std::uint32_t num_others) const {
  path.resize(std::min(path.size(), most));
  for (; !path.empty(); path.pop_back()) {
    const auto snapshot = state_slots->snapshot_after(path.back().block);
    if (!snapshot) continue;
    if (state_slots->num_free() + state_slots->num_idle() >= num_others + state_slots->is_idle(*snapshot))
      return snapshot;
    path.clear();
    break;
  }
  return std::nullopt;
}

void pool_book::keep_snapshot(const block_table& table, const state_snapshot& snapshot) {
  if (!index) return;
  const std::span<const token_id> tokens(table.tokens);
  prefix_index::node_ref last;
  for (std::uint32_t i = 0; i < snapshot.length / config.block_size; ++i) {
    const auto node = index->find(last, *table.salt, prompt_cells(i, table.num_prompt_tokens),
                                  tokens.subspan(std::size_t{i} * config.block_size, config.block_size));
    if (!node) return; // evicted since it was published
    last = *node;
  }
  if (!state_slots->snapshot_after(last.block)) state_slots->add_snapshot(last.block, snapshot.slot);
}

void pool_manager::take_state_slots(state_slot_pool& pool, block_table& table,
                                    const acquire_options& options) {
  pool.allocate(std::min(options.max_state_slots, pool.num_free() + pool.num_idle()), table.states);
  const auto renewed = std::min(2U, pool.num_free() + pool.num_idle());
  pool.allocate(std::min(options.num_snapshot_slots, std::max(pool.num_free(), renewed)), table.states);
}

void pool_manager::drop(pool_book& pool, block_id block, block_owner owner) {
  pool.drop(block, owner, ++last_use_);
}

bool pool_manager::make_room(pool_book& pool, std::uint32_t num) {
  const auto enough = [&] { return pool.blocks.count(block_state::free) >= num; };
  if (enough() || borrow_slabs(pool, num)) return true;
  // Does not evict cached blocks for a request that they cannot satisfy.
  if (num > available_blocks(pool.id)) {
    return_slabs(pool);
    return false;
  }
  while (!enough()) {
    auto* const victim = least_recently_used(pool);
    if (victim == nullptr) break;
    evict_one(*victim);
    if (victim == &pool) continue;
    return_slabs(*victim);
    borrow_slabs(pool, num);
  }
  if (enough()) return true;
  return_slabs(pool);
  return false;
}

pool_book* pool_manager::least_recently_used(const pool_book& pool) const {
  const auto& budget = budget_of(pool);
  const bool may_grow = pool.blocks.next_slab_blocks() > 0;
  const auto can_give = [&](const pool_book& other) {
    return &other == &pool || (may_grow && other.config.space == pool.config.space &&
                               budget.lent_bytes(other.account) > budget.min_bytes(other.account));
  };
  pool_book* oldest = nullptr;
  for (const auto& other : pools_) {
    if (other->num_idle() == 0 || !can_give(*other)) continue;
    if (oldest == nullptr || *other->index->oldest_use() < *oldest->index->oldest_use()) oldest = other.get();
  }
  return oldest;
}

bool pool_manager::make_room_for(pool_book& pool, block_table& table, std::uint32_t num) {
  if (make_room(pool, num)) return true;
  if (!table.copy_source) return false;
  drop(pool, *std::exchange(table.copy_source, std::nullopt), block_owner::table);
  return make_room(pool, num);
}

bool pool_manager::borrow_slabs(pool_book& pool, std::uint32_t num_free) {
  while (pool.blocks.count(block_state::free) < num_free) {
    const auto slab = pool.blocks.next_slab_blocks();
    if (slab == 0 || !budget_of(pool).lend(pool.account, slab * pool.config.block_bytes)) return false;
    pool.blocks.add_slab();
  }
  return true;
}

void pool_manager::return_slabs(pool_book& pool) {
  auto& budget = budget_of(pool);
  for (;;) {
    const auto bytes = pool.blocks.empty_slab_blocks() * pool.config.block_bytes;
    if (bytes == 0 || budget.lent_bytes(pool.account) < budget.min_bytes(pool.account) + bytes) return;
    pool.blocks.remove_empty_slab();
    budget.give_back(pool.account, bytes);
  }
}

bool pool_manager::evict_one(pool_book& pool) {
  while (const auto block = pool.index ? pool.index->evict() : std::nullopt) {
    // A block in use is only removed from the index. Its request publishes it again after its own copy of the
    // parent.
    if (pool.state_slots) pool.state_slots->forget(*block);
    if (pool.blocks.remove_owner(*block, block_owner::index) != block_state::free) continue;
    ++pool.counters.num_evicted_blocks;
    return true;
  }
  return false;
}

std::uint32_t pool_manager::reach_blocks(pool_id pool) const {
  const auto& p = book(pool);
  const auto slab_bytes = p.config.slab_blocks * p.config.block_bytes;
  const auto reach = budget_of(p).reach_bytes(p.account);
  const auto num_slabs = reach / slab_bytes;
  if (num_slabs >= p.config.num_blocks / p.config.slab_blocks) {
    // Counts whole slabs; the last one may be smaller.
    const auto whole = p.config.num_blocks / p.config.slab_blocks * p.config.slab_blocks;
    const auto rest = p.config.num_blocks - whole;
    return reach - whole * p.config.block_bytes >= rest * p.config.block_bytes ? p.config.num_blocks : whole;
  }
  return static_cast<std::uint32_t>(num_slabs) * p.config.slab_blocks;
}

std::uint32_t pool_manager::available_blocks(pool_id pool) const {
  const auto& p = book(pool);
  const auto& budget = budget_of(p);
  auto bytes = budget.available_bytes(p.account);
  for (const auto& other : pools_) {
    if (other.get() == &p || other->config.space != p.config.space) continue;
    const auto spare = (std::uint64_t{other->num_idle()} + other->blocks.count(block_state::free)) *
                       other->config.block_bytes;
    const auto lent = budget.lent_bytes(other->account);
    const auto min = budget.min_bytes(other->account);
    bytes += std::min(spare, lent > min ? lent - min : 0);
  }
  const auto absent =
      std::min<std::uint64_t>(p.blocks.count(block_state::absent), bytes / p.config.block_bytes);
  return p.blocks.count(block_state::free) + p.num_idle() + static_cast<std::uint32_t>(absent);
}

bool pool_manager::passed(const stream_point& point) const noexcept {
  if (point.sequence == 0) return true;
  const auto mark = watermarks_.find(point.stream);
  return mark != watermarks_.end() && mark->second >= point.sequence;
}

void pool_manager::take_off(std::list<deferred_release>& entry) {
  const auto& r = entry.front();
  auto& p = *pools_[r.pool];
  for (const auto block : r.blocks) {
    p.blocks.add_owner(block, block_owner::release);
    drop(p, block, block_owner::table);
  }
  for (const auto slot : r.states) {
    p.state_slots->add_owner(slot, block_owner::release);
    p.state_slots->remove_owner(slot, block_owner::table, ++last_use_);
  }
  if (passed(r.after)) return carry_out(r);
  deferred_.splice(deferred_.end(), entry);
}

void pool_manager::carry_out(const deferred_release& r) {
  auto& p = *pools_[r.pool];
  // Last block first, so that the tail of a cached prefix is evicted before its head.
  for (auto i = r.blocks.size(); i-- > 0;) drop(p, r.blocks[i], block_owner::release);
  for (const auto slot : r.states) p.state_slots->remove_owner(slot, block_owner::release, ++last_use_);
  return_slabs(p);
}

void pool_manager::on_watermark(stream_id stream, std::uint64_t sequence) {
  auto& mark = watermarks_[stream];
  mark = std::max(mark, sequence);
  for (auto r = deferred_.begin(); r != deferred_.end();) {
    if (!passed(r->after)) {
      ++r;
      continue;
    }
    carry_out(*r);
    r = deferred_.erase(r);
  }
}

} // namespace paceline::kv
