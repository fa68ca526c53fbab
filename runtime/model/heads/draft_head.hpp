#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/kv_model.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace paceline::model {

/// The hidden states that a pass of a draft head reads: one vector for each row.
struct head_features {
  /// Features beside the target's cells, of which the head takes the vectors of its taps. Null: the head
  /// reads what its own earlier rows gave, beside its own cells.
  const feature_cells* of_target = nullptr;
  std::span<const std::uint32_t> cells; ///< for each row, index of the cell there
  /// For each row, how many places it lies behind the text: 0 for rows of the text, for draft tokens their
  /// depth from 1, for block rows 1, 2, ...
  std::span<const std::uint32_t> levels = {};
};

/// The rows whose logits a pass of a draft head computes.
struct head_outputs {
  std::span<const std::uint32_t> logit_rows; ///< ascending
  /// [logit_rows.size()][num_levels][info().vocab_size].
  std::span<float> logits;
  /// Of parallel heads without block rows: levels that are wanted of each row, at most `max_levels`. Else 1.
  std::uint32_t num_levels = 1;
  /// [logit_rows.size()]: how sure the head is of the token that a row's logits give, 0 to 1; empty: not
  /// wanted. Of heads with `has_confidence`.
  std::span<float> confidences = {};
};

/// How a head drafts. Constant.
struct head_traits {
  std::uint32_t max_levels = token_limit; ///< levels that it can draft
  bool is_parallel = false; ///< one pass gives the logits of all levels, whatever tokens they get
  bool has_cells = true;    ///< keeps something for each row, in a pool of its own
  /// Rows read the cells of rows before them. Else only the newest token of a text is run, as if it were the
  /// first: at position 0, in slot 0.
  bool reads_context = true;

  /// Rows that follow the newest row of a text in the pass that drafts, at the slots and positions after it.
  /// Each has the newest token and the cell of the newest row's features. What they leave in their cells is
  /// forgotten with the draft. 0: none, and of a parallel head the newest row gives all levels.
  ///
  /// If the head is not parallel, block rows give of each level but the first what does not depend on the
  /// tokens drafted before. A row of the draft gives the rest, which is added to it (DSpark's Markov head).
  std::uint32_t num_block_rows = 0;
  /// A block row sees the text and the block rows up to itself, so those behind the last level that is wanted
  /// are not run. False: each sees the whole block, which is always run in full.
  bool block_is_causal = true;
  /// The row whose logits are level 0's: 0 the newest row of the text, 1 the first block row, and so on;
  /// level l has the logits of row first_level_row + l.
  std::uint32_t first_level_row = 0;

  bool has_confidence = false; ///< gives `head_outputs::confidences`

  /// Rows of the draft give what is to be added to the logits of their level.
  constexpr bool adds_to_levels() const noexcept { return num_block_rows > 0 && !is_parallel; }
  /// Block rows that a draft of `num_levels` levels runs.
  constexpr std::uint32_t block_rows_for(std::uint32_t num_levels) const noexcept {
    if (num_block_rows == 0 || num_levels == 0) return 0;
    if (!block_is_causal) return num_block_rows;
    return std::min(num_block_rows, first_level_row + num_levels - 1);
  }

  static constexpr std::uint32_t token_limit = 64;
};

/// A small network that drafts for one target: from a token and a hidden state it predicts the token after
/// it. It keeps keys and values of its rows in a pool of its own, and beside them the hidden state that each
/// row gave (`kv_storage::features`, one vector), which the next row of a draft reads in place of the
/// target's. Embedding and LM head are its own or the target's.
///
/// Row i of a request pairs the target's features of position i with token i + 1, has position i, and
/// predicts token i + 2 (docs/drafters.md). Constant after loading; row-invariant as `language_model` is: a
/// block row depends on the block rows that it sees, too.
class draft_head : public kv_model {
 public:
  virtual head_traits traits() const noexcept { return {}; }
  /// The target's layers whose hidden states it reads, in the order in which it wants them; the number of
  /// layers: after the final norm.
  virtual std::span<const layer_index> taps() const noexcept = 0;
  /// The target's token for each token of the draft vocabulary; empty: the same ids.
  virtual std::span<const token_id> target_ids() const noexcept = 0;
  /// Tokens that it has an embedding for; larger ids must not be fed.
  virtual std::uint32_t num_embedded() const noexcept = 0;

  /// Runs `batch` inside a program: writes each row's keys and values at its slot of `kv`, the hidden states
  /// of rows with logits, which rows of a draft follow, and the logits of some rows, over the draft
  /// vocabulary, which the host may read when the call returns. `kv` is null if it has no cells.
  virtual void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                       kv_storage* kv, const head_outputs& outputs) const = 0;
};

} // namespace paceline::model
