#pragma once

#include "gpu/kernels/chain_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/base/expected.hpp"

#include <cstdint>
#include <vector>

namespace paceline::gpu {

/// A pass as the stages of one launch of the kernel draft_chain (gpu/kernels/chain_params.hpp).
struct chain_plan {
  std::vector<chain_stage> stages;
  std::uint32_t shared_bytes = 0; ///< shared memory that the stages need, a multiple of 16
  std::uint32_t most_blocks = 0;  ///< largest number of blocks of a stage: further ones would have no work

  /// Whether all blocks synchronise after the last stage.
  bool waits_at_end() const noexcept { return !stages.back().is_small; }
  /// Bytes of shared memory of a block of the launch.
  std::uint32_t all_shared_bytes() const noexcept { return shared_bytes + 2 * sizeof(chain_stage); }
};

/// Largest number of blocks of a small stage. Block 0 of the launch computes a small stage alone, because
/// this takes no longer than synchronising all blocks. If each block of a stage is one warp, the limit is
/// four times as large, because block 0 of the launch has four warps. Products and attention are never small.
/// The number is an estimate from latencies, not a measurement.
inline constexpr std::uint32_t small_stage_blocks = 2;

/// Makes a stage of each launch of `pass`, in order. Error: `unsupported`, with the reason why one
/// launch cannot compute the pass.
expected<chain_plan> plan_chain(const step_queue::step& pass);

/// Sets `first_block` of the stages that are not small, for a launch of `num_blocks` blocks. The first of
/// these stages begins at block 0. If a stage begins at block b and has n blocks, the next one begins at
/// block (b + n) modulo `num_blocks`. (n counts one-warp blocks like others, although a block of the launch
/// computes four of them at a time.)
void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept;

} // namespace paceline::gpu
