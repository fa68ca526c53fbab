#pragma once

#include "gpu/kernels/chain_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/base/expected.hpp"

#include <cstdint>
#include <vector>

namespace paceline::gpu {

/// A pass as the stages of one launch of draft_chain (gpu/kernels/chain_params.hpp).
struct chain_plan {
  std::vector<chain_stage> stages;
  std::uint32_t shared_bytes = 0; ///< shared memory that the stages need, a multiple of 16
  std::uint32_t most_blocks = 0;  ///< largest useful number of blocks in a stage

  bool waits_at_end() const noexcept { return !stages.back().is_small; }
  /// Bytes of shared memory of a block of the launch.
  std::uint32_t all_shared_bytes() const noexcept { return shared_bytes + 2 * sizeof(chain_stage); }
};

/// A stage that is neither a product nor attention is small if it has at most this many blocks, or four times
/// as many if each of its blocks is one warp, because block 0 of the launch runs four warps at once. Block 0
/// computes a small stage alone: this takes no longer than synchronising all blocks. The number is an
/// estimate from latencies, not a measurement.
inline constexpr std::uint32_t small_stage_blocks = 2;

/// Makes a stage of each launch of `pass`, in order. Error: `unsupported`, with the reason why the pass
/// cannot be a chain.
expected<chain_plan> plan_chain(const step_queue::step& pass);

/// Sets `first_block` of the stages that are not small, for a launch of `num_blocks` blocks. The first of
/// these stages begins at block 0. Each further one begins at the block after the one that computes the end
/// of the preceding one; block 0 follows the last block.
void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept;

} // namespace paceline::gpu
