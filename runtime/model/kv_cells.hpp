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

/// Shape of a sequence's recurrent state. Of each layer that has one, the inputs of its convolution and,
/// behind them, the matrices of its delta rule.
struct state_shape {
  std::uint32_t num_layers = 0; ///< with a state
  /// Values of one of these layers: num_taps - 1 times the channels, before matrices rounded up to a cache
  /// line.
  std::uint32_t conv_inputs = 0;
  std::uint64_t matrix_values = 0; ///< likewise: `device::delta_heads::state_values`

  /// Of one layer.
  std::uint64_t layer_values() const noexcept { return conv_inputs + matrix_values; }
  std::uint64_t num_values() const noexcept { return num_layers * layer_values(); }
  std::uint64_t bytes() const noexcept { return num_values() * sizeof(float); }
};

/// Shape of the keys and values of all layers with attention, and of a sequence's state.
struct kv_shape {
  std::uint32_t num_layers = 0; ///< with attention
  std::uint32_t num_heads = 0;  ///< key-value heads
  std::uint32_t head_dim = 0;
  kv_type type = kv_type::f16;
  state_shape states = {};

  std::uint64_t bytes_per_token() const noexcept {
    return 2 * kv_head_bytes(type, head_dim) * num_layers * num_heads;
  }
};

/// The shape for these layers of a model; empty: for all layers.
kv_shape shape_of_cells(const model_config& config, kv_type type, std::span<const std::uint32_t> layers = {});

/// The hidden states (features) that a pool keeps for each cell.
struct feature_shape {
  std::span<const layer_index> taps = {}; ///< layers as in feature_cells.hpp; empty: no features
  std::uint32_t hidden_size = 0;          ///< values of one tap
};

/// Keys and values of a transformer, in the layout of `device::kv_layer`. Keys and values of all layers of a
/// block are contiguous, and so are the block's scales if the type has them. So the first use of a block
/// touches memory in one place. With one array for each layer it would touch as many places as there are
/// arrays, and with huge pages this causes many page faults in one pass (340 ms for 24 layers on a virtual
/// machine).
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
  /// The states of layer number `index` among those with a state: the inputs of its convolution, and the
  /// matrices of its delta rule.
  device::conv_states conv_states(std::uint32_t index) const;
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
  /// Memory of all blocks, contiguous.
  struct block_array {
    std::uint64_t block_bytes = 0;
    std::unique_ptr<device::buffer> buffer;
  };
  block_array values_;         ///< keys of layer 0, values of layer 0, keys of layer 1, ...
  block_array scales_;         ///< likewise; empty if the type has none
  block_array feature_values_; ///< likewise; empty without taps
  std::vector<device::kv_layer> layers_;
  feature_cells features_;
  device::buffer_memory& memory_;
  state_shape state_shape_;
  std::uint32_t num_state_slots_ = 0;
  std::unique_ptr<device::buffer> states_; ///< [num_state_slots][layer][layer_values]; null: none
};

} // namespace paceline::model
