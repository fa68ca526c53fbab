#pragma once

#include "gpu/kernels/choice_params.hpp"
#include "gpu/kernels/params.hpp"
#include "gpu/kernels/streamed_params.hpp"
#include "runtime/device/op_chain.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

// A chain of passes in one launch (runtime/device/op_chain.hpp, docs/decisions/0507). What a pass does comes
// as data: its *stages*, the launches that it would be, in their order. The blocks of draft_chain are all
// under way at the same time, do the work of a stage's blocks among them, and meet before what needs all of
// it.

/// Threads of a block of draft_chain.
inline constexpr std::uint32_t chain_threads = 128;

/// Queries that tiles of a chain have room for: the heads of one key-value head, of one row.
inline constexpr std::uint32_t chain_queries = 8;
/// Room for a kernel's params.
inline constexpr std::size_t stage_params_bytes = 496;

/// A launch that is part of another.
struct alignas(16) chain_stage {
  std::byte params[stage_params_bytes]; ///< the kernel's struct
  std::uint32_t blocks_x = 1;           ///< of the kernel's grid
  std::uint32_t num_blocks = 1;         ///< of it
  std::uint32_t first_block = 0;        ///< of draft_chain's, which does the first of them
  kernel_id kernel{};
  bool by_warps = false; ///< a block of it is a warp
  bool is_small = false; ///< block 0 of draft_chain does all of it
  bool waits = true; ///< for all blocks; else, where block 0 is alone with it and the one before, for that
};
static_assert(sizeof(chain_stage) == 512 && sizeof(chain_stage) == chain_threads * 4);

/// Rotation angles of all steps, and where the stages look for those of the step at hand.
struct chain_table {
  const float* from = nullptr; ///< [num_steps][num_values]
  float* to = nullptr;         ///< [num_values]
  std::uint32_t num_values = 0;
};

/// What differs from step to step, and what of it the stages read.
struct chain_steps {
  const device::chain_row* rows; ///< [num_steps][num_rows]
  std::uint32_t num_rows;
  std::uint32_t num_steps;
  std::uint32_t num_levels;
  chain_table tables[2];
  // Of the step at hand, [num_rows].
  device::batch_entry* entries;
  token_id* tokens;
  choice_row* choosing;
  const row_choice* choices;
  // Of all, [num_rows][num_levels].
  token_id* drafted;
  device::chain_choice* out;
};

/// All blocks of the launch run together; one row of them.
struct draft_chain_params {
  const chain_stage* stages;
  std::uint32_t num_stages;
  std::uint32_t num_blocks; ///< of the launch
  std::uint32_t slots_at;   ///< in shared memory: two stages, behind what stages use
  bool waits_at_end;        ///< the last stage is not block 0's alone
  std::uint32_t* arrived;   ///< 0
  chain_steps steps;
};

} // namespace paceline::gpu
