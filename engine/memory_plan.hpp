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

/// `wanted` with a byte budget for each space, and with pools that fit it. The memory of a space is
/// `budget_bytes`. If `budget_bytes` is 0, it is the smaller of the wanted memory and `bytes_for_cells` of
/// the space, but at least the minimum of all pools.
///
/// State slots are allotted first. Each pool gets its minimum. After the minimum of blocks is set aside,
/// all slots together get at most half of the remaining memory, or the minimum of slots if that is more.
/// Slots beyond the minimum are divided in proportion to what each pool wants beyond its minimum.
///
/// The budget of a space is the rest, for blocks. If it is too small for all wanted blocks, the division
/// depends on the space. In a space that allocates memory page by page, each pool may grow up to the whole
/// budget. In a space that allocates all memory at once, each pool gets its minimum of blocks, and the rest
/// is divided as for slots.
///
/// Error: `resource_exhausted`, with the bytes needed, if the memory does not hold one request of full length
/// for each model.
expected<memory_plan> fit_memory(memory_plan wanted, std::uint64_t budget_bytes);

/// Adds the pools to `manager` and returns their ids, [model][pool].
expected<std::vector<std::vector<kv::pool_id>>> make_pools(kv::pool_manager& manager,
                                                           const memory_plan& plan);

} // namespace paceline
