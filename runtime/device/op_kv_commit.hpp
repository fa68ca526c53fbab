#pragma once

#include "runtime/device/op_choose.hpp"
#include "runtime/device/op_kv.hpp"

#include <cstdint>
#include <span>

namespace paceline::device {

/// A draft whose nodes have cells: node n is in slot base + n of its sequence.
struct drafted_cells {
  std::uint32_t choice = 0;              ///< index of its result in `kv_commit_args::chosen`
  std::uint32_t sequence = 0;            ///< index into `row_batch::sequences`
  kv_slot base;                          ///< slot at the base length: the path's first cell is moved there
  std::span<const std::int32_t> parents; ///< for each node, at most max_draft_nodes, an earlier node or -1
};

/// Vectors that belong to the cells of a pool, one for each cell. The vector of cell c of block b is row b *
/// block_size + c.
struct cell_vectors {
  float* values = nullptr; ///< device memory, [num_blocks * block_size][width]; null: there are none
  std::uint32_t width = 0;
};

/// Moves the accepted paths of drafts to consecutive slots, in all layers. Let n_0 < n_1 < ... be the nodes
/// from the root's child down to node `place` (chosen_run). The cell of slot base + n_i goes to slot base + i
/// with its scales and its vector, in the order of i. If `place` is -1, nothing is moved. No other cell
/// changes.
///
/// A path ascends and n_i >= i, so no cell is overwritten before it is read. Nodes of different drafts have
/// no common cell. The default implementation, for devices whose memory the host can access, is a `kv_copy`
/// in each layer and copies of the vectors. A device that offers `choose` must have an implementation that
/// reads the results of its `choose`.
struct kv_commit_args {
  const row_batch* batch = nullptr;   ///< only its sequences are read
  std::span<const kv_layer> layers;   ///< of one pool: they differ in addresses only
  const chosen_run* chosen = nullptr; ///< in device memory, as returned by `ops::choose`; `place` is read
  std::span<const drafted_cells> drafts;
  cell_vectors vectors = {}; ///< of the same pool
};

/// Throws check_failure unless every parent precedes its children, every cell lies in a block of its
/// sequence, and these blocks lie in the pool.
void check_drafts(const kv_commit_args& args);

} // namespace paceline::device
