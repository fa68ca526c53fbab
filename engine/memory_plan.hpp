#pragma once

#include "engine/model_unit.hpp"
#include "runtime/device/compute_device.hpp"

#include <cstdint>
#include <vector>

namespace paceline {

/// The KV pools of all models, and the memory that they share.
struct memory_plan {
  std::vector<device::memory_space> spaces;
  std::vector<std::uint64_t> budgets;              ///< bytes, [space]
  std::vector<std::vector<kv::pool_config>> pools; ///< [model][pool]; their `space` is one of `spaces`
};

/// What the models want: pools for all requests that may run together, and no less than for one of full
/// length. Fails with what asking a device for its memory fails with.
expected<memory_plan> wanted_memory(const std::vector<std::unique_ptr<model_unit>>& models,
                                    bool prefix_cache);

/// `wanted` with budgets, and pools no larger than these: `budget_bytes` in each space or, where it is 0,
/// what is wanted of what the space has for cells. Where memory is taken page by page each pool may grow to
/// all of its space's budget; where it is taken whole, pools get what one request needs and shares of the
/// rest, as they wanted. Fails with `resource_exhausted`, saying how much it takes, where a budget does not
/// hold one request of full length a model.
expected<memory_plan> fit_memory(memory_plan wanted, std::uint64_t budget_bytes);

/// Adds the pools to `manager` and returns their ids, [model][pool].
expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const memory_plan& plan);

} // namespace paceline
