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
  std::uint32_t shared_bytes = 0; ///< that stages use; whole quads
  std::uint32_t most_blocks = 0;  ///< of a stage: more would have nothing to do

  bool waits_at_end() const noexcept { return !stages.back().is_small; }
  /// What a block of the launch has.
  std::uint32_t all_shared_bytes() const noexcept { return shared_bytes + 2 * sizeof(chain_stage); }
};

/// Stages with as many blocks' work are block 0's alone: to do it one after the other takes no longer than
/// the others' coming together. A guess from latencies, not measured.
inline constexpr std::uint32_t small_stage_blocks = 2;

/// The launches of a pass, in order. Fails with `unsupported`, and what is in the way, where one of them is
/// no stage.
expected<chain_plan> plan_chain(const step_queue::step& pass);

/// Shares the stages out among `num_blocks` blocks: each stage begins where the one before ended.
void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept;

} // namespace paceline::gpu
