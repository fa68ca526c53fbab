#pragma once

#include "gpu/kernels/choice_params.hpp"
#include "gpu/kernels/params.hpp"
#include "gpu/kernels/streamed_params.hpp"
#include "runtime/device/op_chain.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

// A chain of passes in one launch of draft_chain (runtime/device/op_chain.hpp, docs/decisions/0507). The pass
// is described by data: a list of *stages*. The stages are the kernel launches, in order, that the pass would
// need outside a chain. All blocks of draft_chain run at the same time and divide the blocks of each stage
// among them. They synchronise before a stage that needs results of other blocks.

/// Threads of a block of draft_chain.
inline constexpr std::uint32_t chain_threads = 128;

/// Largest number of queries in a tile of a chain. A tile has the query heads of one key-value head, for one
/// row.
inline constexpr std::uint32_t chain_queries = 8;
/// Bytes reserved in a stage for the kernel's parameters.
inline constexpr std::size_t stage_params_bytes = 496;

/// A stage: a launch of a kernel. The blocks of draft_chain do the work of this kernel's blocks.
struct alignas(16) chain_stage {
  std::byte params[stage_params_bytes]; ///< the kernel's struct
  std::uint32_t blocks_x = 1;           ///< of the kernel's grid
  std::uint32_t num_blocks = 1;         ///< in the whole grid
  /// Block of draft_chain that computes block 0 of the stage; the next ones follow.
  std::uint32_t first_block = 0;
  kernel_id kernel{};
  bool by_warps = false; ///< each of its blocks is one warp
  bool is_small = false; ///< block 0 of draft_chain computes all of it
  /// All blocks of draft_chain synchronise before this stage. False where the stage does not need results of
  /// other blocks.
  bool waits = true;
};
static_assert(sizeof(chain_stage) == 512 && sizeof(chain_stage) == chain_threads * 4);

/// RoPE angles of all steps, and the place from which the stages read the angles of the current step.
struct chain_table {
  const float* from = nullptr; ///< [num_steps][num_values]
  float* to = nullptr;         ///< [num_values]
  std::uint32_t num_values = 0;
};

/// The data that differs between steps (passes of the chain), and the places from which the stages read it.
struct chain_steps {
  const device::chain_row* rows; ///< [num_steps][num_rows]
  std::uint32_t num_rows;
  std::uint32_t num_steps;
  std::uint32_t num_levels;
  chain_table tables[2];
  // Values of the current step, [num_rows]:
  device::batch_entry* entries;
  token_id* tokens;
  choice_row* choosing;
  const row_choice* choices;
  // Values of all steps, [num_rows][num_levels]:
  token_id* drafted;
  device::chain_choice* out;
};

/// All blocks of the launch run at the same time; grid in blocks (num_blocks, 1).
struct draft_chain_params {
  const chain_stage* stages;
  std::uint32_t num_stages;
  std::uint32_t num_blocks; ///< of the launch
  /// Offset, in bytes of shared memory, of room for two stages: the current one and the next. The memory
  /// before it is used by the stages.
  std::uint32_t slots_at;
  bool waits_at_end;      ///< the last stage is not computed by block 0 alone
  std::uint32_t* arrived; ///< counter of sync_grid; must be 0 at the start
  chain_steps steps;
};

} // namespace paceline::gpu
