#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace paceline::device {

/// One token of a forward pass. It attends to positions 0..position of its own sequence. Positions up to
/// `position - path_length` are in the slot of the same number. The last `path_length` positions (its
/// ancestors in the draft tree and itself, root first) are in the slots `paths[path_begin ..]`. A chain or
/// prefill row has path_length 0, because its slots equal its positions.
///
/// Attention uses `position`. The rotary embedding (RoPE) uses `rotary_position()`, which may be earlier: all
/// rows of a DFlash block attend to the whole block, but each is rotated by its own position
/// (docs/drafters.md).
struct batch_entry {
  token_id token;               ///< vocab_size + j: the row's input is vector j of `row_batch::inputs`
  token_position position;      ///< the last position that the row attends to
  kv_slot slot;                 ///< where this row's own K and V are written (before any row reads them)
  std::uint32_t sequence = 0;   ///< index into `row_batch::sequences`
  std::uint32_t path_begin = 0; ///< index into `row_batch::paths`
  std::uint32_t path_length = 0;
  std::uint32_t positions_back = 0; ///< the rotary position is `position` - this; at most `position`

  token_position rotary_position() const noexcept { return token_position{position.value - positions_back}; }
};

/// The recurrent state of one row: what layers without attention keep of the tokens up to and including this
/// row. A row continues the state of the row before it in its text (in a draft tree, its parent).
struct row_state {
  std::int32_t parent = -1; ///< the row before it, if it is in this pass: an earlier row; else -1
  /// Without a parent: the slot of the state that the row continues; nullopt: it is the first of its text.
  std::optional<state_slot> read;
  std::optional<state_slot> write; ///< where its own state is kept for later passes; nullopt: nowhere
};

/// A sequence's memory in one pass.
struct sequence_kv {
  std::span<const block_id> blocks; ///< block table: slot s lies in blocks[s / block_size] at s % block_size
};

/// The rows of one forward pass: any mixture of sequences, prefill chunks, decode rows and tree rows. Views
/// only. The result of a row does not depend on the other rows, to the bit, except that it reads K and V of
/// the rows that it sees. In each layer K and V of all rows are written before any row reads, so the rows
/// that a row sees may come earlier or later in `rows`.
struct row_batch {
  std::span<const batch_entry> rows; ///< [num_rows]
  std::span<const sequence_kv> sequences;
  std::span<const kv_slot> paths;
  /// Input vectors in the device's memory, [num_inputs][hidden_size], instead of embeddings: vector j is the
  /// input of rows with token vocab_size + j. Only in passes of the target; null: there are none.
  const float* inputs = nullptr;
  std::uint32_t num_inputs = 0;
  /// [num_rows], for models with a recurrent state, else empty. No slot is written by two rows, or written by
  /// one and read by another.
  std::span<const row_state> states = {};
};

/// Throws check_failure unless there is a state for each of `num_rows` rows, parents precede their children,
/// slots exist, and no slot is written by two rows, or written by one and read by another.
void check_states(std::span<const row_state> states, std::size_t num_rows, std::uint32_t num_slots);

/// Slot of `position` as `row` sees it; position <= row.position.
inline kv_slot slot_of(const row_batch& batch, const batch_entry& row, token_position position) {
  const std::uint32_t linear = row.position.value + 1 - row.path_length;
  if (position.value < linear) return kv_slot{position.value};
  return batch.paths[row.path_begin + (position.value - linear)];
}

/// Index of `slot`'s cell in a pool of blocks of `block_size` cells.
inline std::uint64_t cell_of(const sequence_kv& sequence, kv_slot slot, std::uint32_t block_size) {
  return std::uint64_t{sequence.blocks[slot.value / block_size].value} * block_size + slot.value % block_size;
}

/// Cells to copy within a pool or from one pool to another. Used when a request needs its own copy of a
/// shared last block, to compact an accepted path, and to copy the target's cells into a drafter's pool.
struct kv_copy {
  block_id from_block;
  std::uint32_t from_offset = 0; ///< cell within the block
  block_id to_block;
  std::uint32_t to_offset = 0;
  std::uint32_t num_cells = 0; ///< consecutive cells
};

} // namespace paceline::device
