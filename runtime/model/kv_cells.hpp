#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/model/model_config.hpp"

#include <memory>
#include <span>
#include <vector>

namespace paceline::model {

/// Shape of the recurrent state of one sequence. The state has a part for each recurrent layer: the last
/// inputs of the layer's convolution, then the matrices of its gated delta rule, if it has one.
struct state_shape {
  std::uint32_t num_layers = 0; ///< recurrent layers
  /// Floats of a layer's inputs: (num_taps - 1) * number of channels. If matrices follow the inputs, the
  /// number is rounded up to a cache line.
  std::uint32_t conv_inputs = 0;
  std::uint64_t matrix_values = 0; ///< floats of a layer's matrices (`device::delta_heads::state_values`)

  /// Floats of one layer's part.
  std::uint64_t layer_values() const noexcept { return conv_inputs + matrix_values; }
  std::uint64_t num_values() const noexcept { return num_layers * layer_values(); }
  std::uint64_t bytes() const noexcept { return num_values() * sizeof(float); }
};

/// Shape of the keys and values of all layers with attention, and of the recurrent state of a sequence.
struct kv_shape {
  std::uint32_t num_layers = 0; ///< layers with attention
  std::uint32_t num_heads = 0;  ///< key-value heads
  std::uint32_t head_dim = 0;
  kv_type type = kv_type::f16;
  state_shape states = {};

  std::uint64_t bytes_per_token() const noexcept {
    return 2 * kv_head_bytes(type, head_dim) * num_layers * num_heads;
  }
};

/// The shape for the layers `layers` of a model, or for all layers if `layers` is empty.
kv_shape shape_of_cells(const model_config& config, kv_type type, std::span<const std::uint32_t> layers = {});

/// The hidden states (features) that a pool keeps for each cell.
struct feature_shape {
  std::span<const layer_index> taps = {}; ///< layers as in feature_cells.hpp; empty: no features
  std::uint32_t hidden_size = 0;          ///< values of one tap
};

/// Memory of a transformer's KV pool: keys and values in the layout of `device::kv_layer`, features beside
/// the cells, and recurrent states in slots of their own.
///
/// The keys and values of one block are contiguous over all layers, and so are the block's scales if the type
/// has them. So the first use of a block touches memory in one place. With one array for each layer it would
/// touch as many places as there are arrays, and with huge pages this causes many page faults in one pass
/// (340 ms for 24 layers on a virtual machine).
class kv_cells final : public kv_storage {
 public:
  /// Throws std::bad_alloc, also if the size exceeds 64 bits. `memory` must outlive the storage.
  kv_cells(const kv_shape& shape, std::uint32_t num_blocks, std::uint32_t block_size,
           device::buffer_memory& memory, const feature_shape& features = {});

  std::uint32_t num_blocks() const noexcept override { return num_blocks_; }
  std::uint32_t block_size() const noexcept override { return block_size_; }
  void copy(device::ops& ops, std::span<const device::kv_copy> copies) override;
  void copy_from(device::ops& ops, const kv_storage& from, std::span<const device::kv_copy> copies) override;
  void poison(std::span<const block_id> blocks) override;
  void make_states(std::uint32_t num_slots) override;
  std::uint32_t num_state_slots() const noexcept override { return num_state_slots_; }
  void poison_states(std::span<const state_slot> slots) override;
  /// The inputs of a recurrent layer's convolution, in all state slots. `index` counts only recurrent layers.
  device::conv_states conv_states(std::uint32_t index) const;
  /// The matrices of a recurrent layer's gated delta rule, in all state slots. `index` as above.
  device::delta_states delta_states(std::uint32_t index) const;
  const feature_cells* features() const noexcept override {
    return feature_values_.buffer ? &features_ : nullptr;
  }

  const device::kv_layer& layer(std::uint32_t index) const noexcept { return layers_[index]; }
  std::span<const device::kv_layer> layers() const noexcept { return layers_; }
  std::uint32_t num_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }

 private:
  float* state_of(std::uint32_t index) const;

  std::uint32_t num_blocks_;
  std::uint32_t block_size_;
  /// One array for all blocks: block b is at b * `block_bytes`.
  struct block_array {
    std::uint64_t block_bytes = 0;
    std::unique_ptr<device::buffer> buffer;
  };
  block_array values_;         ///< of a block: keys of layer 0, values of layer 0, keys of layer 1, ...
  block_array scales_;         ///< their scales, in the same order; no buffer if the type has none
  block_array feature_values_; ///< `feature_cells::values`; no buffer without taps
  std::vector<device::kv_layer> layers_;
  feature_cells features_;
  device::buffer_memory& memory_;
  state_shape state_shape_;
  std::uint32_t num_state_slots_ = 0;
  std::unique_ptr<device::buffer> states_; ///< [num_state_slots][layer][layer_values]; null: none
};

} // namespace paceline::model
