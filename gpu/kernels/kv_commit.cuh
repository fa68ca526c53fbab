#pragma once

#include "gpu/kernels/kv_commit_params.hpp"
#include "gpu/kernels/kv_kernels.cuh"

// Moves the cells of accepted paths, as defined in runtime/device/op_kv_commit.hpp.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Lists the nodes from the root's child down to `place`; called by one thread. Returns their number.
PACELINE_DEVICE std::uint32_t list_path(std::int32_t place, const std::int32_t* parents,
                                        std::uint32_t* nodes) {
  std::uint32_t num = 0;
  for (std::int32_t n = place; n >= 0; n = parents[n]) ++num;
  std::uint32_t i = num;
  for (std::int32_t n = place; n >= 0; n = parents[n]) nodes[--i] = static_cast<std::uint32_t>(n);
  return num;
}

/// Finds source and destination of each cell on the path to `place`, for all threads of the block.
PACELINE_DEVICE void plan_moves(const kv_commit_params& p, const commit_draft& draft, std::int32_t place,
                                std::uint32_t block_size, commit_memory& shared) {
  if (thread_index() == 0) shared.num_moves = list_path(place, p.parents + draft.first_parent, shared.nodes);
  sync_block();
  for (std::uint32_t i = thread_index(); i < shared.num_moves; i += num_threads()) {
    const kv_slot from_slot{draft.base.value + shared.nodes[i]}, to_slot{draft.base.value + i};
    const cell_place from = place_of(p.batch, draft.sequence, from_slot, block_size);
    const cell_place to = place_of(p.batch, draft.sequence, to_slot, block_size);
    shared.moves[i] = {from.block, from.cell, to.block, to.cell, 1};
  }
  sync_block();
}

/// Moves the vectors that belong to the cells. The thread blocks that do this follow those of the layers.
PACELINE_DEVICE void move_vectors(const kv_commit_params& p, std::uint32_t block_size,
                                  const commit_memory& shared) {
  const std::uint32_t i = (block_x() - p.num_layers * p.blocks_per_layer) * num_threads() + thread_index();
  if (i >= p.vectors.width) return;
  for (std::uint32_t m = 0; m < shared.num_moves; ++m) {
    if (shared.nodes[m] == m) continue;
    const device::kv_copy& move = shared.moves[m];
    const std::size_t from = std::size_t{move.from_block.value} * block_size + move.from_offset;
    const std::size_t to = std::size_t{move.to_block.value} * block_size + move.to_offset;
    p.vectors.values[to * p.vectors.width + i] = p.vectors.values[from * p.vectors.width + i];
  }
}

/// A thread makes all moves of its dimension, in order, so that no two threads access the same values.
PACELINE_KERNEL kv_commit(kv_commit_params p) {
  begin_in_turn();
  const commit_draft draft = p.drafts[block_y()];
  const std::int32_t place = p.chosen[draft.choice].place;
  if (place < 0) return; // the whole block returns
  const std::uint32_t number = block_x() / p.blocks_per_layer;
  const device::kv_layer layer = p.layers[number < p.num_layers ? number : 0];
  commit_memory& shared = *shared_memory<commit_memory>();
  plan_moves(p, draft, place, layer.block_size, shared);
  if (number >= p.num_layers) return move_vectors(p, layer.block_size, shared);
  const std::uint32_t i = block_x() % p.blocks_per_layer * num_threads() + thread_index();
  if (i >= layer.num_heads * layer.head_dim) return;
  for (std::uint32_t m = 0; m < shared.num_moves; ++m)
    if (shared.nodes[m] != m)
      copy_dimension(layer, layer, shared.moves[m], i / layer.head_dim, i % layer.head_dim);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
