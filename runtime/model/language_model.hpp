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

/// Properties of a model for the rest of the runtime. Constant after loading.
struct model_info {
  std::string architecture;         ///< "llama", "qwen2", "hash"
  std::uint32_t vocab_size = 0;     ///< logits a row
  std::uint32_t context_length = 0; ///< positions for which the model was made
  std::uint32_t num_layers = 0;
  std::uint32_t hidden_size = 0;        ///< values a row of a tap
  std::uint64_t weights_bytes = 0;      ///< bytes of weights in memory
  std::uint64_t bytes_per_token = 0;    ///< bytes of weights one decoded token reads
  std::uint64_t kv_bytes_per_token = 0; ///< bytes of one token's KV cell over all layers
  /// Computed by ops, which may choose tokens from them (`forward_outputs::choices`).
  bool logits_by_ops = false;
};

/// The memory of one KV pool: `num_blocks` blocks of `block_size` cells, in a layout that only its model
/// knows. The pool manager decides who owns each block; this class does not know.
class kv_storage {
 public:
  virtual ~kv_storage() = default;
  virtual std::uint32_t num_blocks() const noexcept = 0;
  virtual std::uint32_t block_size() const noexcept = 0;
  /// Makes copies in order. Called inside a program of the stream that uses the pool.
  virtual void copy(device::ops& ops, std::span<const device::kv_copy> copies) = 0;
  /// The same out of the pool `from`, of the model whose first layers this pool's model is (`part_of`), on
  /// the same device and with blocks of the same size.
  virtual void copy_from(device::ops& ops, const kv_storage& from,
                         std::span<const device::kv_copy> copies) = 0;
  /// Fills blocks with poison (NaN where the layout has floats): tests call it on freed blocks.
  virtual void poison(std::span<const block_id> blocks) = 0;
};

/// Hidden states requested by a drafter: the residual stream after `layer` (num_layers = after the final
/// norm).
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
class language_model {
 public:
  virtual ~language_model() = default;
  virtual const model_info& info() const noexcept = 0;

  /// Allocates a pool of this model's cells. Throws std::bad_alloc.
  virtual std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks,
                                                      std::uint32_t block_size) const = 0;

  /// The model that consists of these layers of this one (ascending), followed by its final norm and head.
  /// Shares the weights, so this model must outlive it. Null if parts of the model cannot run.
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
