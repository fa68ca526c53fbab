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
  /// Features beside the target's cells; the head reads the vectors of its taps. Null: the head reads the
  /// hidden states that its own earlier rows stored beside its own cells.
  const feature_cells* of_target = nullptr;
  std::span<const std::uint32_t> cells; ///< for each row, index of the cell whose features it reads
  /// For each row: 0 for a row of the text; the depth, from 1, of a draft token; 1, 2, ... for block rows.
  std::span<const std::uint32_t> levels = {};
};

/// The rows whose logits a pass of a draft head computes.
struct head_outputs {
  std::span<const std::uint32_t> logit_rows; ///< ascending
  /// [logit_rows.size()][num_levels][info().vocab_size].
  std::span<float> logits;
  /// For parallel heads without block rows: number of levels wanted from each row, at most `max_levels`. For
  /// other heads: 1.
  std::uint32_t num_levels = 1;
  /// [logit_rows.size()]: estimated probability, 0 to 1, that the likeliest token of a row's logits is right;
  /// empty: not wanted. Only for heads with `has_confidence`.
  std::span<float> confidences = {};
};

/// How a head drafts. Constant.
struct head_traits {
  std::uint32_t max_levels = token_limit; ///< levels that it can draft
  /// One pass gives the logits of all levels. They do not depend on the tokens that are chosen for the draft.
  bool is_parallel = false;
  bool has_cells = true; ///< stores keys and values, or a hidden state, of each row in a pool of its own
  /// Rows read the cells of earlier rows. False: only the newest token of a text is run, at position 0 and in
  /// slot 0, as if it were the first.
  bool reads_context = true;

  /// Number of *block rows*. In the pass that drafts, these rows follow the newest row of the text, at the
  /// next slots and positions. Each has the newest token and reads the features of the newest row. Their
  /// cells are forgotten with the draft. 0: no such rows; in a parallel head the newest row then gives all
  /// levels.
  ///
  /// If the head is not parallel, the logits of every level except the first are the sum of two terms. A
  /// block row gives the term that does not depend on the tokens drafted before. A row of the draft gives the
  /// term that does (DSpark's Markov head).
  std::uint32_t num_block_rows = 0;
  /// True: a block row sees the text and the block rows up to itself, so block rows after the last wanted
  /// level are not run. False: each block row sees the whole block, so all block rows are always run.
  bool block_is_causal = true;
  /// Number of the row that gives the logits of level 0. Row 0 is the newest row of the text, row 1 the first
  /// block row, and so on. Level l has the logits of row first_level_row + l.
  std::uint32_t first_level_row = 0;

  bool has_confidence = false; ///< gives `head_outputs::confidences`

  /// True if rows of the draft give a term that is added to the logits of their level.
  constexpr bool adds_to_levels() const noexcept { return num_block_rows > 0 && !is_parallel; }
  /// Block rows that a draft of `num_levels` levels runs.
  constexpr std::uint32_t block_rows_for(std::uint32_t num_levels) const noexcept {
    if (num_block_rows == 0 || num_levels == 0) return 0;
    if (!block_is_causal) return num_block_rows;
    return std::min(num_block_rows, first_level_row + num_levels - 1);
  }

  static constexpr std::uint32_t token_limit = 64; ///< the most levels of any head
};

/// A small network that drafts for one target: from a token and a hidden state it predicts the next token. It
/// keeps keys and values of its rows in a pool of its own, and beside them the hidden state of each row
/// (`kv_storage::features`, one vector). A row of the draft reads the hidden state of its parent's row in
/// place of the target's hidden state, which is not computed yet. Embedding and LM head are the head's own or
/// the target's.
///
/// Row i of a request pairs the target's features of position i with token i + 1, has position i, and
/// predicts token i + 2 (docs/drafters.md). Constant after loading. Rows are invariant as in
/// `language_model`, except that a block row also depends on the block rows that it sees.
class draft_head : public kv_model {
 public:
  virtual head_traits traits() const noexcept { return {}; }
  /// The target's layers whose hidden states the head reads, in the order in which it reads them; the value
  /// num_layers means: after the final norm.
  virtual std::span<const layer_index> taps() const noexcept = 0;
  /// For each token of the draft vocabulary its id in the target's; empty: the ids are the same.
  virtual std::span<const token_id> target_ids() const noexcept = 0;
  /// Number of tokens that have an embedding. Ids from this number on must not be fed.
  virtual std::uint32_t num_embedded() const noexcept = 0;

  /// Runs `batch` inside a program. Writes each row's keys and values at its slot of `kv`. Also writes the
  /// hidden states of rows with logits beside their cells, because rows of a draft read them. Writes the
  /// logits of `outputs.logit_rows`, over the draft vocabulary; the host may read them when the call returns.
  /// `kv` is null for a head without cells.
  virtual void forward(device::ops& ops, const device::row_batch& batch, const head_features& features,
                       kv_storage* kv, const head_outputs& outputs) const = 0;
};

} // namespace paceline::model
