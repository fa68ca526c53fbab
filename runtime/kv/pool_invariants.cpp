#include "runtime/kv/pool_book.hpp"

#include <unordered_set>

namespace paceline::kv {

namespace {

/// The owners of each block, counted from the objects that name it.
struct named_owners {
  std::vector<std::uint32_t> tables;
  std::vector<std::uint32_t> releases;
};

std::optional<std::string> check_table(const pool_book& pool, const block_table& table) {
  if (table.length > table.tokens.size()) return "final slots beyond the committed tokens";
  if (table.length > pool.capacity_of(table)) return "final slots beyond the lease";
  if (std::uint64_t{table.num_published} * pool.config.block_size > table.length)
    return "published unfinished blocks";
  std::unordered_set<block_id> seen;
  const auto num_full = table.length / pool.config.block_size;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const auto block = table.blocks[i];
    if (!seen.insert(block).second) return "block " + to_string(block) + " stands in the table twice";
    if (i >= num_full && pool.blocks.num_owners(block, block_owner::index) > 0)
      return "block " + to_string(block) + " is indexed but not full";
  }
  return std::nullopt;
}

std::optional<std::string> check_owners(const pool_book& pool, const named_owners& named) {
  for (std::uint32_t i = 0; i < pool.config.num_blocks; ++i) {
    const auto block = block_id{i};
    const auto name = "block " + to_string(block);
    if (pool.blocks.num_owners(block, block_owner::table) != named.tables[i])
      return name + " miscounts its tables";
    if (pool.blocks.num_owners(block, block_owner::release) != named.releases[i])
      return name + " miscounts releases";
    const bool indexed = pool.index && pool.index->contains(block);
    if ((pool.blocks.num_owners(block, block_owner::index) > 0) != indexed)
      return name + " disagrees with the index";
  }
  if (pool.num_idle() != pool.blocks.count(block_state::cached))
    return "idle blocks of the index are not the cached ones";
  return std::nullopt;
}

/// `num_releases`: of each slot.
std::optional<std::string> check_states(const pool_book& pool,
                                        const std::vector<std::uint32_t>& num_releases) {
  std::vector<std::uint32_t> num_tables(pool.state_slots->num_slots());
  for (const auto& [request, table] : pool.tables) {
    for (const auto slot : table.states) ++num_tables[slot.value];
    if (table.initial_state) ++num_tables[table.initial_state->value];
  }
  for (std::uint32_t s = 0; s < num_tables.size(); ++s) {
    const state_slot slot{s};
    if (pool.state_slots->num_owners(slot, block_owner::table) != num_tables[s])
      return "state slot " + std::to_string(s) + " miscounts its tables";
    if (pool.state_slots->num_owners(slot, block_owner::release) != num_releases[s])
      return "state slot " + std::to_string(s) + " miscounts releases";
  }
  for (std::uint32_t i = 0; i < pool.config.num_blocks; ++i)
    if (pool.state_slots->snapshot_after(block_id{i}) && !(pool.index && pool.index->contains(block_id{i})))
      return "block " + std::to_string(i) + " has a snapshot and is not indexed";
  return std::nullopt;
}

} // namespace

std::vector<std::uint32_t> pool_manager::deferred_states(const pool_book& pool) const {
  std::vector<std::uint32_t> num_releases(pool.state_slots->num_slots());
  for (const auto& r : deferred_)
    if (pools_[r.pool].get() == &pool)
      for (const auto slot : r.states) ++num_releases[slot.value];
  return num_releases;
}

expected<void> pool_manager::check_invariants() const {
  for (const auto& b : budgets_)
    if (auto ok = b.check_invariants(); !ok) return ok;
  for (const auto& p : pools_) {
    const auto broken = [&p](const std::string& what) {
      return error(errc::internal, "pool " + p->config.name + ": " + what);
    };
    if (auto ok = p->blocks.check_invariants(); !ok) return broken(ok.error().message());
    if (p->state_slots) {
      if (auto ok = p->state_slots->check_invariants(); !ok) return broken(ok.error().message());
      if (const auto what = check_states(*p, deferred_states(*p))) return broken(*what);
    }
    if (p->index)
      if (auto ok = p->index->check_invariants(); !ok) return broken(ok.error().message());
    named_owners named{std::vector<std::uint32_t>(p->config.num_blocks),
                       std::vector<std::uint32_t>(p->config.num_blocks)};
    std::vector<std::uint32_t> num_writers(p->config.num_blocks);
    for (const auto& [request, table] : p->tables) {
      if (const auto what = check_table(*p, table))
        return broken("request " + to_string(request) + ": " + *what);
      const auto num_full = table.length / p->config.block_size;
      for (std::size_t i = 0; i < table.blocks.size(); ++i) {
        ++named.tables[table.blocks[i].value];
        if (i >= num_full) ++num_writers[table.blocks[i].value];
      }
      if (table.copy_source) ++named.tables[table.copy_source->value];
    }
    for (std::uint32_t i = 0; i < p->config.num_blocks; ++i)
      if (num_writers[i] > 1) return broken("block " + std::to_string(i) + " has two writers");
    for (const auto& r : deferred_)
      if (pools_[r.pool] == p)
        for (const auto block : r.blocks) ++named.releases[block.value];
    if (const auto what = check_owners(*p, named)) return broken(*what);
    const auto lent_bytes = budget_of(*p).lent_bytes(p->account);
    const auto num_here = p->config.num_blocks - p->blocks.count(block_state::absent);
    if (lent_bytes != num_here * p->config.block_bytes) return broken("holds more or less than was lent");
    const auto empty_bytes = p->blocks.empty_slab_blocks() * p->config.block_bytes;
    if (empty_bytes > 0 && lent_bytes >= budget_of(*p).min_bytes(p->account) + empty_bytes)
      return broken("keeps an empty slab");
  }
  return {};
}

} // namespace paceline::kv
