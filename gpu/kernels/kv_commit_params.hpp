#pragma once

#include "gpu/kernels/params.hpp"
#include "runtime/device/op_kv_commit.hpp"

#include <cstdint>

namespace paceline::gpu {

// Parameters of the kernel of op `kv_commit`: device::kv_commit_args (runtime/device/op_kv_commit.hpp, which
// documents the fields) with indices instead of spans.

/// Threads of a block of kv_commit.
inline constexpr std::uint32_t commit_threads = 128;

struct commit_draft {
  std::uint32_t choice = 0;
  std::uint32_t sequence = 0;
  kv_slot base;
  std::uint32_t first_parent = 0; ///< index of node 0 in `kv_commit_params::parents`
};

/// In shared memory: the accepted path of a draft, from the root's child down.
struct commit_memory {
  std::uint32_t num_moves;
  std::uint32_t nodes[device::max_draft_nodes];
  device::kv_copy moves[device::max_draft_nodes]; ///< copies of the path's cells to consecutive slots
};

/// One thread for each dimension of each key-value head of a layer, and, in further blocks, one for each
/// value of the vectors beside the cells. Grid in blocks (layers * blocks_per_layer + blocks of the vectors,
/// drafts).
struct kv_commit_params {
  batch_view batch;
  const device::kv_layer* layers;
  const device::chosen_run* chosen;
  const commit_draft* drafts;
  const std::int32_t* parents;
  device::cell_vectors vectors;
  std::uint32_t num_layers;
  std::uint32_t blocks_per_layer;
};

} // namespace paceline::gpu
