#pragma once

#include "engine/model_unit.hpp"

#include <cstdint>
#include <vector>

namespace paceline {

/// How the KV budget is shared before any of it is allocated.
struct memory_plan {
  std::uint64_t budget_bytes = 0;
  std::vector<std::vector<std::uint32_t>> num_blocks; ///< [model][pool]
};

/// Fits the pools of all models into `budget_bytes` (0: what is wanted, at most half of the machine's memory). Every pool
/// gets what one request of full length needs, or the error says how much memory that would take.
expected<memory_plan> plan_memory(const std::vector<std::unique_ptr<model_unit>>& models, std::uint64_t budget_bytes,
                                  std::uint64_t machine_bytes);

/// Adds the pools to `manager` and returns their ids, [model][pool].
expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const std::vector<std::unique_ptr<model_unit>>& models,
                                                           const memory_plan& plan, bool prefix_cache);

} // namespace paceline
