#pragma once

#include "runtime/device/op_choose.hpp"
#include "runtime/device/op_kv.hpp"

#include <cstdint>
#include <span>

namespace paceline::device {

/// A draft whose nodes have cells: node n in slot base + n of its sequence.
struct drafted_cells {
  std::uint32_t choice = 0;              ///< which of `kv_commit_args::chosen` is about it
  std::uint32_t sequence = 0;            ///< index into `row_batch::sequences`
  kv_slot base;                          ///< the base length: where the path is to begin
  std::span<const std::int32_t> parents; ///< of the nodes, at most max_draft_nodes: a node before, or -1
};

/// Brings the accepted paths of drafts in line, in all layers. With n0 < n1 < ... the nodes from the root
/// down to the chosen place, the cell of slot base + n_i goes to slot base + i, scales included, in the order
/// of i. A place of -1 has no path. No other cell changes; those behind the path are left as they are.
///
/// A path ascends and n_i >= i, so no cell is overwritten before it has been read. Nodes of different
/// drafts have no cell in common. By default a `kv_copy` in each layer, for devices whose memory the host
/// reads; a device that can choose has to offer it for what its `choose` returns.
struct kv_commit_args {
  const row_batch* batch = nullptr;   ///< of which only the sequences are read
  std::span<const kv_layer> layers;   ///< one pool's: they differ in addresses only
  const chosen_run* chosen = nullptr; ///< of the device's, as `ops::choose` returns them; `place` is read
  std::span<const drafted_cells> drafts;
};

/// Fails a check unless parents stand before their children, and every cell is in its sequence's blocks and
/// these in the pool.
void check_drafts(const kv_commit_args& args);

} // namespace paceline::device
