#pragma once

#include "engine/model_unit.hpp"
#include "runtime/device/compute_device.hpp"

#include <cstdint>
#include <vector>

namespace paceline {

/// The KV pools of all models, and the memory that they share.
struct memory_plan {
  std::vector<device::memory_space> spaces;
  std::vector<std::uint64_t> budgets;              ///< bytes for blocks, [space]
  std::vector<std::vector<kv::pool_config>> pools; ///< [model][pool]; their `space` is one of `spaces`
};

/// Pools with blocks for all requests that may run together, and their minimum: blocks for one request of
/// full length. Errors: those of querying a device's memory.
expected<memory_plan> wanted_memory(const std::vector<std::unique_ptr<model_unit>>& models,
                                    bool prefix_cache);

/// `wanted` with a byte budget for each space, and pools that fit it. The memory of a space is `budget_bytes`
/// or, if that is 0, the wanted amount limited by what the space has available for cells. State slots come
/// first: each pool gets its minimum of them, and all together at most half of what the minimum of blocks
/// leaves, unless their minimum is more. They share what there is beyond it in proportion to what the pools
/// want. The budget of a space is the rest, for blocks. If it is too small for all wanted blocks: in a space
/// that allocates memory page by page, each pool may grow up to the whole budget; in a space that allocates
/// it at once, each pool gets its minimum, and the rest is divided in the same proportion. Error:
/// `resource_exhausted`, with the bytes needed, if the memory does not hold one request of full length for
/// each model.
expected<memory_plan> fit_memory(memory_plan wanted, std::uint64_t budget_bytes);

/// Adds the pools to `manager` and returns their ids, [model][pool].
expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const memory_plan& plan);

} // namespace paceline
