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

/// A stage of kind `rows` with at most this many blocks (four times as many if each is one warp, because four
/// of these run at once) is computed by block 0 alone, because computing them in sequence
/// takes no longer than synchronising all blocks. The number is an estimate from latencies, not a
/// measurement.
inline constexpr std::uint32_t small_stage_blocks = 2;

/// Makes a stage of each launch of `pass`, in order. Error: `unsupported`, with the reason why the pass
/// cannot be a chain.
expected<chain_plan> plan_chain(const step_queue::step& pass);

/// Distributes the stages that are not small over `num_blocks` blocks: each begins at the block after the
/// last one of the previous of these.
void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept;

} // namespace paceline::gpu
