#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <span>

namespace paceline::device {

/// Rows of a chain's step, one a sequence.
inline constexpr std::uint32_t max_chain_rows = 8;
/// Tokens that a chain chooses for a sequence.
inline constexpr std::uint32_t max_chain_levels = max_draft_nodes;

/// A row of a step.
struct chain_row {
  batch_entry entry; ///< of no path; a token below 0: the one that the row of this number chose a step before
  std::int32_t level =
      -1; ///< what its choice is: the draft token so many levels below the first; -1: nobody asks
};

/// What a row chose.
struct chain_choice {
  token_id token;
  bool hopeless = false; ///< the row had no finite logit; `token` is the lowest id
};

/// Passes one after the other, the tokens of each being those that the last one chose, without the host
/// between them: the draft of a small model.
///
/// A step is a pass over `num_rows` rows of different sequences. What it does is said once, by the call that
/// `ops::chain` is given: the ops of the first step's pass, as they are asked for of a `row_batch` of its
/// rows, `choose` for every row being the last. In the other steps embed, rope_table, kv_write and attention
/// are of that step's rows, and `choose` is of `level` levels below the request's first row, the path being
/// the tokens chosen for the levels before. So each step has the bits that a pass of its own over the same
/// rows would have.
struct chain_args {
  std::uint32_t num_rows = 0;      ///< of a step, at most max_chain_rows
  std::span<const chain_row> rows; ///< [num_steps][num_rows]; the first step's tokens are known
  std::span<const sequence_kv> sequences;
  std::span<const token_choice> requests; ///< one a row, in their order; without drafts
  std::uint32_t num_levels = 0;           ///< at most max_chain_levels; a row's levels ascend by one
  std::span<chain_choice> out;            ///< [num_rows][num_levels]; of what nobody asked for unspecified
};

} // namespace paceline::device
