#include "engine/memory_plan.hpp"

#include <algorithm>

namespace paceline {

namespace {

std::uint64_t block_bytes(const model_unit& unit, const pool_need& need) {
  return std::max<std::uint64_t>(need.cell_bytes * unit.options.block_size, 1);
}

} // namespace

expected<memory_plan> plan_memory(const std::vector<std::unique_ptr<model_unit>>& models, std::uint64_t budget_bytes,
                                  std::uint64_t machine_bytes) {
  std::uint64_t wanted = 0, least = 0;
  for (const auto& unit : models)
    for (const auto& need : unit->pool_needs()) {
      wanted += need.wanted_blocks * block_bytes(*unit, need);
      least += need.least_blocks * block_bytes(*unit, need);
    }
  memory_plan plan;
  plan.budget_bytes = budget_bytes != 0 ? budget_bytes : std::min(wanted, std::max(machine_bytes / 2, least));
  if (plan.budget_bytes < least)
    return error{errc::resource_exhausted, "engine.memory_budget: " + std::to_string(plan.budget_bytes) +
                 " bytes do not hold one request of full length a model; it takes " + std::to_string(least) +
                 " bytes, or a smaller context_length"};
  for (const auto& unit : models) {
    std::vector<std::uint32_t> blocks;
    for (const auto& need : unit->pool_needs()) {
      const auto fits = plan.budget_bytes / block_bytes(*unit, need);
      blocks.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(need.wanted_blocks, fits)));
    }
    plan.num_blocks.push_back(std::move(blocks));
  }
  return plan;
}

expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const std::vector<std::unique_ptr<model_unit>>& models,
                                                           const memory_plan& plan, bool prefix_cache) {
  std::vector<std::vector<kv::pool_id>> ids;
  for (std::size_t m = 0; m < models.size(); ++m) {
    ids.emplace_back();
    const auto needs = models[m]->pool_needs();
    for (std::size_t p = 0; p < needs.size(); ++p) {
      kv::pool_config config;
      config.name = needs[p].name;
      config.num_blocks = plan.num_blocks[m][p];
      config.block_size = models[m]->options.block_size;
      config.block_bytes = block_bytes(*models[m], needs[p]);
      config.slab_blocks = 1;
      config.min_blocks = needs[p].least_blocks;
      config.prefix_cache = prefix_cache && p == 0; // a drafter's memory starts over with each request
      auto id = manager.add_pool(std::move(config));
      if (!id) return std::move(id).error();
      ids[m].push_back(*id);
    }
  }
  return ids;
}

} // namespace paceline
