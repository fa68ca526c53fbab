#include "engine/memory_plan.hpp"

#include <algorithm>
#include <limits>

namespace paceline {

namespace {

/// The total memory that the pools of one space need, in bytes.
struct demand {
  std::uint64_t wanted = 0; ///< bytes of blocks, as in the next member
  std::uint64_t least = 0;
  std::uint64_t wanted_state_bytes = 0;
  std::uint64_t min_state_bytes = 0;
};

demand demand_in(std::uint32_t space, const memory_plan& plan) {
  demand sum;
  for (const auto& of_model : plan.pools)
    for (const auto& pool : of_model) {
      if (pool.space != space) continue;
      sum.wanted += pool.num_blocks * pool.block_bytes;
      sum.least += pool.min_blocks * pool.block_bytes;
      sum.wanted_state_bytes += pool.num_state_slots * pool.state_bytes;
      sum.min_state_bytes += pool.min_state_slots * pool.state_bytes;
    }
  return sum;
}

/// Number of blocks of a pool in a space of `budget` bytes.
std::uint32_t fitting_blocks(const kv::pool_config& pool, const demand& all, std::uint64_t budget,
                             bool taken_whole) {
  if (all.wanted <= budget) return pool.num_blocks;
  if (!taken_whole)
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(pool.num_blocks, budget / pool.block_bytes));
  const auto share = static_cast<double>(budget - all.least) / static_cast<double>(all.wanted - all.least);
  return pool.min_blocks + static_cast<std::uint32_t>(share * (pool.num_blocks - pool.min_blocks));
}

/// Reduces the number of states in a space's pools so that they fit in half of the memory that the minimum
/// number of blocks leaves. Returns the bytes of the states.
std::uint64_t fit_states(memory_plan& plan, std::uint32_t space, const demand& all, std::uint64_t total) {
  const auto room = std::max(all.min_state_bytes, (total - all.least) / 2);
  const auto more = static_cast<double>(all.wanted_state_bytes - all.min_state_bytes);
  const double share =
      all.wanted_state_bytes <= room ? 1 : static_cast<double>(room - all.min_state_bytes) / more;
  std::uint64_t bytes = 0;
  for (auto& of_model : plan.pools)
    for (auto& pool : of_model) {
      if (pool.space != space) continue;
      pool.num_state_slots =
          pool.min_state_slots +
          static_cast<std::uint32_t>(share * (pool.num_state_slots - pool.min_state_slots));
      bytes += pool.num_state_slots * pool.state_bytes;
    }
  return bytes;
}

/// Number of the device's memory space in `spaces`; adds the space if it is new.
expected<std::uint32_t> space_of(device::compute_device& device, std::vector<device::memory_space>& spaces) {
  auto space = device.cell_memory();
  if (!space) return std::move(space).error();
  const auto known = std::ranges::find(spaces, space->name, &device::memory_space::name);
  const auto index = static_cast<std::uint32_t>(known - spaces.begin());
  if (known == spaces.end()) spaces.push_back(*std::move(space));
  return index;
}

} // namespace

expected<memory_plan> wanted_memory(const std::vector<std::unique_ptr<model_unit>>& models,
                                    bool prefix_cache) {
  memory_plan plan;
  for (const auto& unit : models) {
    plan.pools.emplace_back();
    for (const auto& need : unit->pool_needs()) {
      const auto space = space_of(*need.device, plan.spaces);
      if (!space) return space.error();
      kv::pool_config config;
      config.name = need.name;
      // Block ids have 32 bits.
      config.num_blocks = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(need.wanted_blocks, std::numeric_limits<std::uint32_t>::max()));
      config.block_size = unit->options.block_size;
      config.block_bytes = std::max<std::uint64_t>(need.cell_bytes * unit->options.block_size, 1);
      config.slab_blocks = 1;
      config.min_blocks = need.least_blocks;
      config.space = *space;
      config.prefix_cache = prefix_cache && need.shares_prefixes;
      config.num_state_slots = need.wanted_state_slots;
      config.min_state_slots = need.min_state_slots;
      config.state_bytes = need.state_bytes;
      plan.pools.back().push_back(std::move(config));
    }
  }
  return plan;
}

expected<memory_plan> fit_memory(memory_plan wanted, std::uint64_t budget_bytes) {
  auto plan = std::move(wanted);
  for (std::uint32_t s = 0; s < plan.spaces.size(); ++s) {
    const auto& space = plan.spaces[s];
    const auto all = demand_in(s, plan);
    const auto least = all.least + all.min_state_bytes;
    if (budget_bytes == 0 && space.max_bytes != 0 && least > space.max_bytes)
      return error{errc::resource_exhausted,
                   "one request of full length a model takes " + std::to_string(least) +
                       " bytes of KV cells and states, memory of " + space.name + " has " +
                       std::to_string(space.max_bytes) + ": use a smaller context_length"};
    const auto total = budget_bytes != 0 ? budget_bytes
                                         : std::min(all.wanted + all.wanted_state_bytes,
                                                    std::max(space.bytes_for_cells, least));
    if (total < least)
      return error{errc::resource_exhausted,
                   "engine.memory_budget: " + std::to_string(total) + " bytes in memory of " + space.name +
                       " do not hold one request of full length a model; it takes " + std::to_string(least) +
                       " bytes, or a smaller context_length"};
    const auto budget = total - fit_states(plan, s, all, total);
    for (auto& of_model : plan.pools)
      for (auto& pool : of_model)
        if (pool.space == s) pool.num_blocks = fitting_blocks(pool, all, budget, space.taken_whole);
    plan.budgets.push_back(budget);
  }
  return plan;
}

expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const memory_plan& plan) {
  std::vector<std::vector<kv::pool_id>> ids;
  for (const auto& of_model : plan.pools) {
    ids.emplace_back();
    for (const auto& config : of_model) {
      const auto id = manager.add_pool(config);
      if (!id) return id.error();
      ids.back().push_back(*id);
    }
  }
  return ids;
}

} // namespace paceline
