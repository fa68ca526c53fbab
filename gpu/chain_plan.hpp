#pragma once

#include "gpu/kernels/chain_params.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/base/expected.hpp"

#include <cstdint>
#include <vector>

namespace paceline::gpu {

/// A pass as stages of a launch (gpu/kernels/chain_params.hpp).
struct chain_plan {
  std::vector<chain_stage> stages;
  std::uint32_t shared_bytes = 0; ///< used by stages; a multiple of a quad
  std::uint32_t most_blocks = 0;  ///< largest useful number of blocks in a stage

  bool waits_at_end() const noexcept { return !stages.back().is_small; }
  /// Shared memory of a block of the launch.
  std::uint32_t all_shared_bytes() const noexcept { return shared_bytes + 2 * sizeof(chain_stage); }
};

/// A stage with at most this many blocks is computed by block 0 alone: computing them in sequence takes no
/// longer than synchronising all blocks. An estimate from latencies, not measured.
inline constexpr std::uint32_t small_stage_blocks = 2;

/// The launches of a pass, in order. Error: `unsupported`, naming a launch that cannot be a stage.
expected<chain_plan> plan_chain(const step_queue::step& pass);

/// Distributes the stages over `num_blocks` blocks: each stage begins at the block where the previous one
/// ended.
void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept;

} // namespace paceline::gpu
