#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/feature_cells.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace paceline::device {
class ops;
}

namespace paceline::model {

/// Properties of a model that the rest of the runtime needs. Constant after loading.
struct model_info {
  std::string architecture;         ///< "llama", "qwen2", "hash", "eagle3"
  std::uint32_t vocab_size = 0;     ///< logits of a row
  std::uint32_t context_length = 0; ///< positions for which the model was made
  std::uint32_t num_layers = 0;
  std::uint32_t hidden_size = 0;        ///< values of a row at one tap
  std::uint64_t weights_bytes = 0;      ///< in memory
  std::uint64_t bytes_per_token = 0;    ///< bytes of weights that a pass over one row reads
  std::uint64_t kv_bytes_per_token = 0; ///< bytes of one token's KV cell over all layers, without features
  /// Bytes of one sequence's recurrent state, which its passes read and write beside its cells; 0: there is
  /// none, and the cells are all that a sequence needs.
  std::uint64_t state_bytes = 0;
  /// Whether the device's ops compute the logits. The device may then choose tokens from them
  /// (`forward_outputs::choices`).
  bool logits_by_ops = false;
};

/// The memory of one KV pool: `num_blocks` blocks of `block_size` cells, in a layout that only its model
/// knows. The pool manager decides who owns each block; this class does not know the owners.
class kv_storage {
 public:
  virtual ~kv_storage() = default;
  virtual std::uint32_t num_blocks() const noexcept = 0;
  virtual std::uint32_t block_size() const noexcept = 0;
  /// Copies cells within the pool, features included, one copy after another. Called inside a program of the
  /// stream that uses the pool.
  virtual void copy(device::ops& ops, std::span<const device::kv_copy> copies) = 0;
  /// Copies cells of the pool `from` to this pool, keys and values only. This pool's model must be the first
  /// layers of the model of `from` (`part_of`). Both pools must be on the same device and have blocks of the
  /// same size.
  virtual void copy_from(device::ops& ops, const kv_storage& from,
                         std::span<const device::kv_copy> copies) = 0;
  /// Fills blocks with values that no pass writes (NaN where the layout has floats). Tests call it on freed
  /// blocks, so that a read of a freed block gives wrong results.
  virtual void poison(std::span<const block_id> blocks) = 0;
  /// Allocates the slots of recurrent states. Called once, before the first pass. No slot is read before a
  /// pass has written it. Does nothing for a model without recurrent states. Throws std::bad_alloc.
  virtual void make_states(std::uint32_t /*num_slots*/) {}
  virtual std::uint32_t num_state_slots() const noexcept { return 0; }
  /// As `poison`, for slots of states.
  virtual void poison_states(std::span<const state_slot> /*slots*/) {}
  /// The hidden states that passes write beside their cells; null if the pool was made without taps.
  virtual const feature_cells* features() const noexcept { return nullptr; }
};

/// Throws check_failure unless every slot that a row writes or reads is in the blocks of its sequence, and
/// every block is in the pool.
void check_batch(const device::row_batch& batch, const kv_storage& kv);

/// A model that keeps keys and values of its rows in a pool: a language model, or a draft head.
class kv_model {
 public:
  virtual ~kv_model() = default;
  virtual const model_info& info() const noexcept = 0;

  /// Allocates a pool of this model's cells, with features of `taps` (layers as in feature_cells.hpp) beside
  /// them. Throws std::bad_alloc.
  virtual std::unique_ptr<kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t block_size,
                                                      std::span<const layer_index> taps = {}) const = 0;

  /// Bytes that one token needs in a pool with `num_taps` taps.
  virtual std::uint64_t cell_bytes(std::size_t num_taps) const noexcept {
    return info().kv_bytes_per_token + num_taps * info().hidden_size * sizeof(float);
  }
};

} // namespace paceline::model
