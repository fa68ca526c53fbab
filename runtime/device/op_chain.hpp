#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>

namespace paceline::device {

/// Largest number of rows in a step of `ops::chain`, one per sequence.
inline constexpr std::uint32_t max_chain_rows = 8;
/// Most tokens that `ops::chain` chooses for a sequence.
inline constexpr std::uint32_t max_chain_levels = max_draft_nodes;

/// A row of one step.
struct chain_row {
  /// The row's input, with path_length 0. A negative token stands for the token that the row with the same
  /// index chose in the previous step.
  batch_entry entry;
  /// Level of the draft token that the row chooses, from 0; -1: its choice is not used.
  std::int32_t level = -1;
};

/// The choice of a row.
struct chain_choice {
  token_id token;
  bool hopeless = false; ///< the row had no finite logit; `token` is then the lowest id
};

/// A chain of passes that runs without the host: each pass can take the tokens that the previous pass
/// chose. Used to draft with a small model.
///
/// A step is a pass over `num_rows` rows of different sequences. The function passed to `ops::chain` requests
/// the ops of the first step: those of a pass over a `row_batch` of its rows, and then `choose` for every
/// row. In each later step embed, rope_table, kv_write and attention use that step's rows, and `choose`
/// treats a row of level n as a node n levels below the request's root, whose path consists of the tokens
/// chosen at the previous levels. So the results of each step are those of a separate pass over the same
/// rows, to the bit.
struct chain_args {
  std::uint32_t num_rows = 0;      ///< in one step, at most max_chain_rows
  std::span<const chain_row> rows; ///< [step][num_rows]; the first step's tokens are known
  std::span<const sequence_kv> sequences;
  std::span<const token_choice> requests; ///< one for each row, in their order; without drafts
  std::uint32_t num_levels = 0; ///< at most max_chain_levels; a request's levels are in consecutive steps
  std::span<chain_choice> out;  ///< [num_rows][num_levels]; entries that no row decides are unspecified
};

} // namespace paceline::device
