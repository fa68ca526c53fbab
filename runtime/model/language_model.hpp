#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/op_chain.hpp"
#include "runtime/device/op_kv_commit.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/kv_model.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::model {

/// A request for the hidden states of all rows on the host: the residual stream after `layer` (num_layers:
/// after the final norm).
struct tap {
  layer_index layer;
  std::span<float> out; ///< [num_rows][hidden_size], row-major
};

/// Tokens that the device chooses, so that logits need not be copied to the host and decisions need not be
/// copied back.
struct device_choices {
  /// Rows of the batch; `device::token_choice::first_row` is an index into them.
  std::span<const std::uint32_t> rows;
  std::span<const device::token_choice> requests;
  std::span<device::chosen_run> out; ///< one for each request
  /// Drafts of some of the requests. The pass moves their accepted cells to consecutive slots
  /// (`device::ops::kv_commit`).
  std::span<const device::drafted_cells> drafts;
};

/// Outputs of a forward pass in addition to K and V.
struct forward_outputs {
  std::span<const std::uint32_t> logit_rows; ///< rows of the batch whose logits are computed, ascending
  std::span<float> logits;                   ///< [logit_rows.size()][vocab_size], row-major, raw
  std::span<const tap> taps;
  /// Only for a model with `logits_by_ops`, inside a program of a device that can choose; otherwise null.
  const device_choices* choices = nullptr;
};

/// A model as the programs use it: rows in, logits out, keys and values through a block table.
///
/// Constant after loading: `forward` may run on several streams at the same time if each uses its own
/// `kv_storage`. Row invariance: logits, taps and written cells of a row have the same bits whatever other
/// rows are in the batch.
class language_model : public kv_model {
 public:
  /// The model that consists of the given layers of this model (ascending), then its final norm and head. The
  /// result uses this model's weights, so this model must outlive it. Null if the model does not support
  /// parts.
  virtual std::unique_ptr<const language_model> part_of(std::span<const std::uint32_t> /*layers*/) const {
    return nullptr;
  }

  /// Runs `batch` inside a program. Writes each row's K and V into its slot of `kv`, then logits and taps,
  /// which the host may read when the call returns. Only ops may read `kv`.
  virtual void forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
                       const forward_outputs& outputs) const = 0;

  /// Runs a chain of passes inside a program. K and V of each row of each step are written as by `forward`,
  /// and the chosen tokens are at `chain.out` when the call returns. Returns false, with nothing done, if the
  /// model or the device does not support it; the caller must then run single passes.
  virtual bool run_chain(device::ops& /*ops*/, const device::chain_args& /*chain*/,
                         kv_storage& /*kv*/) const {
    return false;
  }
};

} // namespace paceline::model
