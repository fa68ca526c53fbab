#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/op_chain.hpp"
#include "runtime/device/op_kv_commit.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::device {
class ops;
}

namespace paceline::model {

/// What the rest of the runtime needs to know of a model. Constant after load.
struct model_info {
  std::string architecture;         ///< "llama", "qwen2", "hash"
  std::uint32_t vocab_size = 0;     ///< logits a row
  std::uint32_t context_length = 0; ///< positions the model was made for
  std::uint32_t num_layers = 0;
  std::uint32_t hidden_size = 0;        ///< values a row of a tap
  std::uint64_t weights_bytes = 0;      ///< bytes of weights in memory
  std::uint64_t bytes_per_token = 0;    ///< bytes of weights one decoded token reads
  std::uint64_t kv_bytes_per_token = 0; ///< bytes of one KV cell over all layers
  bool logits_by_ops = false; ///< made by ops, which may choose tokens from them (`forward_outputs::choices`)
};

/// The memory behind one KV pool: `num_blocks` blocks of `block_size` cells, of a layout that only its model
/// knows. The pool manager decides which block is whose; this class never does.
class kv_storage {
 public:
  virtual ~kv_storage() = default;
  virtual std::uint32_t num_blocks() const noexcept = 0;
  virtual std::uint32_t block_size() const noexcept = 0;
  /// Carries out copies in order. Called inside a program of the stream that uses the pool.
  virtual void copy(device::ops& ops, std::span<const device::kv_copy> copies) = 0;
  /// The same out of the pool `from`, of the model whose first layers this pool's model is (`part_of`), on
  /// the same device and with blocks of the same size.
  virtual void copy_from(device::ops& ops, const kv_storage& from,
                         std::span<const device::kv_copy> copies) = 0;
  /// Fills blocks with poison (NaN where the layout has floats): tests call it on freed blocks.
  virtual void poison(std::span<const block_id> blocks) = 0;
};

/// Hidden states asked for by a drafter: the residual stream after `layer` (num_layers = after the final
/// norm).
struct tap {
  layer_index layer;
  std::span<float> out; ///< [num_rows][hidden_size], row-major
};

/// Tokens that the device chooses, so that logits need not come to the host, nor what follows from them go
/// back.
struct device_choices {
  std::span<const std::uint32_t> rows; ///< of the batch: what `device::token_choice::first_row` counts
  std::span<const device::token_choice> requests;
  std::span<device::chosen_run> out; ///< one a request
  /// Drafts, of some of the requests, whose accepted cells the pass brings in line
  /// (`device::ops::kv_commit`).
  std::span<const device::drafted_cells> drafts;
};

/// What a forward pass shall produce besides K and V.
struct forward_outputs {
  std::span<const std::uint32_t> logit_rows; ///< rows of the batch whose logits are wanted, ascending
  std::span<float> logits;                   ///< [logit_rows.size()][vocab_size], row-major, raw
  std::span<const tap> taps;
  /// Only of a model with `logits_by_ops`, inside a program of a device that can choose. None: null.
  const device_choices* choices = nullptr;
};

/// A model as workers see it: rows in, logits out, keys and values through a block table.
///
/// Constant after load: `forward` may run on several streams at once as long as each uses its own
/// `kv_storage`. Row invariance: logits, taps and written cells of a row are the same bits whatever other
/// rows are in the batch.
class language_model {
 public:
  virtual ~language_model() = default;
  virtual const model_info& info() const noexcept = 0;

  /// Memory for a pool of this model's cells. Throws std::bad_alloc.
  virtual std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks,
                                                      std::uint32_t block_size) const = 0;

  /// The model made of these layers of this one (ascending), then its final norm and head. Shares the
  /// weights: this one outlives it. Null if it cannot run in part.
  virtual std::unique_ptr<const language_model> part_of(std::span<const std::uint32_t> /*layers*/) const {
    return nullptr;
  }

  /// Runs `batch` inside a program. Writes each row's K and V into its slot of `kv`, then logits and taps,
  /// which the host may read when the call returns; what is in `kv`, ops alone.
  virtual void forward(device::ops& ops, const device::row_batch& batch, kv_storage& kv,
                       const forward_outputs& outputs) const = 0;

  /// Runs a chain of passes inside a program: K and V of each row of each step are written as `forward`
  /// would, and what was chosen is at `chain.out` when the call returns. False, and nothing has been done:
  /// the model or the device cannot, and passes are to be made one by one.
  virtual bool run_chain(device::ops& /*ops*/, const device::chain_args& /*chain*/,
                         kv_storage& /*kv*/) const {
    return false;
  }
};

} // namespace paceline::model
