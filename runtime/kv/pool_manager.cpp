#include "runtime/kv/pool_manager.hpp"

#include "runtime/base/check.hpp"
#include "runtime/kv/pool_book.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace paceline::kv {

namespace {

error invalid(const pool_book& pool, request_id request, const std::string& rule) {
  return error(errc::invalid_argument,
               "pool " + pool.config.name + ", request " + to_string(request) + ": " + rule);
}

lease lease_of(const pool_book& pool, const lease_key& key, const block_table& table) {
  return {key, table.blocks, pool.capacity_of(table), table.length};
}

/// Reserves memory for `num` more elements, at least doubling it.
template <class T>
void reserve_more(std::vector<T>& v, std::size_t num) {
  if (v.capacity() - v.size() < num) v.reserve(std::max(v.size() + num, v.capacity() * 2));
}

expected<void> check_config(const pool_config& c, std::size_t num_spaces) {
  const auto bad = [&c](const char* rule) {
    return error(errc::invalid_argument, "pool " + c.name + ": " + rule);
  };
  if (c.num_blocks == 0) return bad("num_blocks must be at least 1");
  if (c.block_size == 0) return bad("block_size must be at least 1");
  if (c.slab_blocks == 0) return bad("slab_blocks must be at least 1");
  if (c.block_bytes == 0) return bad("block_bytes must be at least 1");
  if (c.min_blocks > c.num_blocks) return bad("min_blocks must not exceed num_blocks");
  if (c.space >= num_spaces) return bad("space must be one of the manager's");
  constexpr auto max_slots = std::uint64_t{std::numeric_limits<std::uint32_t>::max()};
  if (std::uint64_t{c.num_blocks} * c.block_size > max_slots)
    return bad("num_blocks * block_size must fit in 32 bits");
  const auto most = std::max<std::uint64_t>(c.num_blocks, c.slab_blocks);
  if (c.block_bytes > std::numeric_limits<std::uint64_t>::max() / most)
    return bad("its bytes do not fit in 64 bits");
  return {};
}

} // namespace

pool_manager::pool_manager(const std::vector<std::uint64_t>& budgets, block_hasher hasher)
    : budgets_(budgets.begin(), budgets.end()), hasher_(std::move(hasher)) {}
pool_manager::~pool_manager() = default;

pool_book& pool_manager::book(pool_id pool) const {
  PACELINE_CHECK(pool.value < pools_.size(),
                 "pool " + to_string(pool) + " of " + std::to_string(pools_.size()));
  return *pools_[pool.value];
}

kv_budget& pool_manager::budget_of(const pool_book& pool) { return budgets_[pool.config.space]; }
const kv_budget& pool_manager::budget_of(const pool_book& pool) const { return budgets_[pool.config.space]; }

const pool_config& pool_manager::config(pool_id pool) const { return book(pool).config; }
const pool_counters& pool_manager::counters(pool_id pool) const { return book(pool).counters; }

pool_usage pool_manager::usage(pool_id pool) const {
  const auto& p = book(pool);
  pool_usage usage{p.blocks.count(block_state::active), p.blocks.count(block_state::deferred),
                   p.blocks.count(block_state::cached), p.blocks.count(block_state::free),
                   p.blocks.count(block_state::absent), static_cast<std::uint32_t>(p.tables.size())};
  if (!p.state_slots) return usage;
  usage.num_held_state_slots = p.state_slots->num_held();
  usage.num_idle_snapshots = p.state_slots->num_idle();
  usage.num_free_state_slots = p.state_slots->num_free();
  return usage;
}

expected<pool_id> pool_manager::add_pool(pool_config config) {
  if (auto ok = check_config(config, budgets_.size()); !ok) return std::move(ok).error();
  const auto id = pool_id{num_pools()};
  pools_.reserve(pools_.size() + 1);
  auto p = std::make_unique<pool_book>(std::move(config), id, hasher_);
  const auto& c = p->config;
  const auto min_slabs = (std::uint64_t{c.min_blocks} + c.slab_blocks - 1) / c.slab_blocks;
  const auto min_blocks = std::min<std::uint64_t>(min_slabs * c.slab_blocks, c.num_blocks);
  auto account = budget_of(*p).open(min_blocks * c.block_bytes);
  if (!account) return std::move(account).error().within("pool " + c.name);
  p->account = *account;
  pools_.push_back(std::move(p));
  borrow_slabs(*pools_.back(), static_cast<std::uint32_t>(min_blocks));
  return id;
}

expected<block_table*> pool_manager::table_of(const lease_key& key) {
  auto& p = book(key.pool);
  const auto table = p.tables.find(key.request);
  if (table != p.tables.end() && table->second.epoch == key.epoch) return &table->second;
  ++p.counters.num_stale_commands;
  return error(errc::stale, "pool " + p.config.name + ": request " + to_string(key.request) + " epoch " +
                                to_string(key.epoch) + " is over");
}

std::optional<committed_text> pool_manager::text_of(const lease_key& key) const {
  const auto& p = book(key.pool);
  const auto table = p.tables.find(key.request);
  if (table == p.tables.end() || table->second.epoch != key.epoch) return std::nullopt;
  return committed_text{table->second.tokens, *table->second.salt};
}

error pool_manager::pool_full(pool_book& pool, std::uint64_t num_wanted) {
  ++pool.counters.num_pool_full;
  return error(errc::pool_full, "pool " + pool.config.name + ": " + std::to_string(num_wanted) +
                                    " blocks wanted, " +
                                    std::to_string(pool.blocks.count(block_state::free)) + " free, " +
                                    std::to_string(pool.blocks.count(block_state::cached)) + " cached, " +
                                    std::to_string(pool.blocks.count(block_state::deferred)) + " deferred");
}

error pool_manager::state_slots_full(pool_book& pool, std::uint32_t num_wanted) {
  ++pool.counters.num_pool_full;
  return error(errc::state_slots_full, "pool " + pool.config.name + ": " + std::to_string(num_wanted) +
                                           " state slots wanted, " +
                                           std::to_string(pool.state_slots->num_free()) + " free, " +
                                           std::to_string(pool.state_slots->num_idle()) + " cached, " +
                                           std::to_string(pool.state_slots->num_held()) + " held");
}

const state_slot_pool* pool_manager::state_slots(pool_id pool) const {
  const auto& p = book(pool);
  return p.state_slots ? &*p.state_slots : nullptr;
}

expected<void> pool_manager::check_reach(pool_id pool, std::uint64_t num_blocks) const {
  const auto reach = reach_blocks(pool);
  if (num_blocks <= reach) return {};
  return error(errc::resource_exhausted,
               "pool " + config(pool).name + ": a request of " + std::to_string(num_blocks) +
                   " blocks can never fit, the pool reaches " + std::to_string(reach));
}

/// Returns an error if even the blocks that the request cannot share are missing. So while the pool is full,
/// repeated requests are refused without a look-up of their text.
expected<void> pool_manager::check_unshared(pool_id pool, const acquire_options& options) {
  auto& p = book(pool);
  const auto num_blocks = p.blocks_for(options.reserve_length);
  if (auto ok = check_reach(pool, num_blocks); !ok) return std::move(ok).error();
  if (p.state_slots && options.min_state_slots > p.state_slots->num_slots())
    return error(errc::resource_exhausted, "pool " + p.config.name + ": a request of " +
                                               std::to_string(options.min_state_slots) +
                                               " states can never fit");
  const std::uint64_t most_shared = options.use_cache ? (options.tokens.size() - 1) / p.config.block_size : 0;
  const auto unshared = num_blocks - std::min(num_blocks, most_shared);
  if (unshared > available_blocks(pool)) return pool_full(p, unshared);
  return {};
}

expected<new_lease> pool_manager::acquire(pool_id pool, request_id request, const acquire_options& options) {
  auto& p = book(pool);
  const auto num_tokens = options.tokens.size();
  if (num_tokens == 0 || options.num_prompt_tokens > num_tokens)
    return invalid(p, request, "it needs a token, and no more prompt tokens than tokens");
  if (p.tables.contains(request)) return invalid(p, request, "it has a table already");

  if (auto ok = check_unshared(pool, options); !ok) return std::move(ok).error();
  const auto size = p.config.block_size;
  std::vector<prefix_index::node_ref> path;
  if (options.use_cache) path = p.find_prefix(options.tokens, options.num_prompt_tokens, options.salt);
  // The last token is always computed. If the cached prefix includes it, its block is shared as a copy
  // without its last cell.
  const auto most_shared = std::min<std::size_t>(path.size(), (num_tokens - 1) / size);
  // A pool with states shares only whole blocks, because no state is stored for a position inside a block.
  const auto num_cached = std::min(path.size(), most_shared);
  const auto initial =
      p.state_slots ? p.end_at_snapshot(path, most_shared, options.min_state_slots) : std::nullopt;
  const auto num_shared = static_cast<std::uint32_t>(std::min(path.size(), most_shared));
  const bool copies_last = path.size() > num_shared && size > 1;
  const auto num_blocks =
      std::max<std::uint64_t>(p.blocks_for(options.reserve_length), num_shared + copies_last);
  if (auto ok = check_reach(pool, num_blocks); !ok) return std::move(ok).error();
  const auto num_new = static_cast<std::uint32_t>(num_blocks) - num_shared;

  // Everything that may throw happens before the first change of the pool.
  block_table fresh;
  fresh.blocks.reserve(num_blocks);
  fresh.tokens.assign(options.tokens.begin(), options.tokens.end());
  fresh.salt = std::make_shared<const std::string>(options.salt);
  const auto most_slots = std::size_t{options.max_state_slots} + options.num_snapshot_slots;
  fresh.states.reserve(most_slots + 1); // and the initial one, when the request is released
  new_lease answer;
  answer.lease.blocks.reserve(num_blocks);
  if (copies_last) answer.copies.reserve(1);
  answer.states.slots.reserve(most_slots);
  const auto entry = p.tables.emplace(request, std::move(fresh)).first;
  auto& table = entry->second;

  for (std::uint32_t i = 0; i < num_shared; ++i) {
    p.hold(path[i].block);
    table.blocks.push_back(path[i].block);
  }
  if (copies_last) p.hold(*(table.copy_source = path[num_shared].block));
  if (initial) p.state_slots->add_owner(*(table.initial_state = *initial), block_owner::table);
  const bool has_states =
      !p.state_slots || p.state_slots->num_free() + p.state_slots->num_idle() >= options.min_state_slots;
  if (!has_states || !make_room_for(p, table, num_new)) {
    auto refusal = has_states ? pool_full(p, num_new) : state_slots_full(p, options.min_state_slots);
    for (auto i = num_shared; i-- > 0;) drop(p, table.blocks[i], block_owner::table);
    if (initial) p.state_slots->remove_owner(*initial, block_owner::table, ++last_use_);
    p.tables.erase(entry);
    return refusal;
  }
  p.blocks.allocate(num_new, table.blocks);
  if (p.state_slots) take_state_slots(*p.state_slots, table, options);
  const std::uint32_t num_copied = table.copy_source ? size - 1 : 0;
  const auto length = num_shared * size + num_copied;
  if (table.copy_source)
    answer.copies.push_back({*table.copy_source, 0, table.blocks[num_shared], 0, num_copied});
  table.epoch = next_epoch();
  table.length = length;
  table.num_prompt_tokens = options.num_prompt_tokens;
  table.num_published = num_shared;
  if (num_shared > 0) table.published = path[num_shared - 1];
  p.counters.num_queried_tokens += num_tokens;
  p.counters.num_hit_tokens += length;
  answer.states.slots.assign(table.states.begin(), table.states.end());
  answer.states.initial = table.initial_state;
  if (p.state_slots && num_cached > num_shared)
    answer.states.cached_without_state = static_cast<std::uint32_t>(num_cached) * size;
  answer.lease.key = {pool, request, table.epoch};
  answer.lease.blocks = table.blocks;
  answer.lease.capacity = p.capacity_of(table);
  answer.lease.length = length;
  return answer;
}

expected<lease> pool_manager::reserve(const lease_key& key, std::uint32_t length) {
  const auto found = table_of(key);
  if (!found) return found.error();
  auto& table = **found;
  auto& p = book(key.pool);
  const auto num_blocks = p.blocks_for(length);
  if (num_blocks <= table.blocks.size()) return lease_of(p, key, table);
  if (auto ok = check_reach(key.pool, num_blocks); !ok) return std::move(ok).error();
  const auto num_new = static_cast<std::uint32_t>(num_blocks - table.blocks.size());
  lease answer;
  answer.blocks.reserve(num_blocks);
  reserve_more(table.blocks, num_new);
  if (!make_room(p, num_new)) return pool_full(p, num_new);
  p.blocks.allocate(num_new, table.blocks);
  answer.key = key;
  answer.blocks = table.blocks;
  answer.capacity = p.capacity_of(table);
  answer.length = table.length;
  return answer;
}

expected<void> pool_manager::commit(const lease_key& key, std::span<const token_id> tokens,
                                    std::uint32_t length, std::span<const state_snapshot> snapshots) {
  const auto found = table_of(key);
  if (!found) return found.error();
  auto& table = **found;
  auto& p = book(key.pool);
  if (length < table.length) return invalid(p, key.request, "final slots cannot become fewer");
  if (length > p.capacity_of(table)) return invalid(p, key.request, "final slots lie beyond the lease");
  if (length > table.tokens.size() + tokens.size())
    return invalid(p, key.request, "final slots lie beyond the committed tokens");
  for (const auto& [final, slot] : snapshots)
    if (!p.state_slots || final == 0 || final > length || final % p.config.block_size != 0 ||
        std::ranges::find(table.states, slot) == table.states.end())
      return invalid(p, key.request, "a snapshot is of final slots that fill blocks, in a slot of the lease");
  table.tokens.insert(table.tokens.end(), tokens.begin(), tokens.end());
  // The source of a copy remains in the index, because the table holds the blocks before it. So no block
  // becomes free here.
  if (length > table.length && table.copy_source)
    drop(p, *std::exchange(table.copy_source, std::nullopt), block_owner::table);
  // Later passes continue from the states in the lease's own slots.
  if (length > table.length && table.initial_state)
    p.state_slots->remove_owner(*std::exchange(table.initial_state, std::nullopt), block_owner::table,
                                ++last_use_);
  table.length = length;
  p.publish(table);
  for (const auto& snapshot : snapshots) p.keep_snapshot(table, snapshot);
  return {};
}

expected<void> pool_manager::rollback(const lease_key& key, std::uint32_t length, stream_point after) {
  const auto found = table_of(key);
  if (!found) return found.error();
  auto& table = **found;
  auto& p = book(key.pool);
  if (length < table.length) return invalid(p, key.request, "final slots cannot be rolled back");
  const auto num_kept = p.blocks_for(length);
  if (num_kept >= table.blocks.size()) return {};
  const auto first = table.blocks.begin() + static_cast<std::ptrdiff_t>(num_kept);
  std::list<deferred_release> entry;
  entry.push_back({key.pool.value, after, std::vector(first, table.blocks.end())});
  p.counters.num_rollbacks += 1;
  p.counters.num_rolled_back_blocks += table.blocks.size() - num_kept;
  table.blocks.erase(first, table.blocks.end());
  take_off(entry);
  return {};
}

expected<void> pool_manager::release(const lease_key& key, stream_point after) {
  const auto found = table_of(key);
  if (!found) return found.error();
  auto& table = **found;
  std::list<deferred_release> entry;
  if (table.copy_source) reserve_more(table.blocks, 1);
  entry.push_back({key.pool.value, after, {}});
  if (table.copy_source) table.blocks.push_back(*table.copy_source);
  entry.front().blocks = std::move(table.blocks);
  if (table.initial_state) table.states.push_back(*table.initial_state);
  entry.front().states = std::move(table.states);
  book(key.pool).tables.erase(key.request);
  take_off(entry);
  return {};
}

} // namespace paceline::kv
