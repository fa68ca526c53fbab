#include "runtime/model/kv_cells.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/ops.hpp"

#include <limits>
#include <new>

namespace paceline::model {
namespace {

/// Multiplies two sizes. On overflow it fails in the same way as an allocation that is too large.
std::uint64_t size_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw std::bad_alloc();
  return product;
}

} // namespace

kv_shape shape_of_cells(const model_config& config, kv_type type, std::span<const std::uint32_t> layers) {
  kv_shape shape{0, config.num_kv_heads, config.head_dim, type};
  const std::size_t num_layers = layers.empty() ? config.num_layers : layers.size();
  for (std::size_t i = 0; i < num_layers; ++i) {
    const bool attends = config.has_attention(layers.empty() ? static_cast<std::uint32_t>(i) : layers[i]);
    ++(attends ? shape.num_layers : shape.states.num_layers);
  }
  if (shape.states.num_layers == 0) return shape;
  const bool has_matrices = config.num_layers_of(layer_kind::gated_delta) != 0;
  shape.states.conv_inputs =
      (config.conv.num_taps - 1) * (has_matrices ? config.delta_channels() : config.hidden_size);
  if (!has_matrices) return shape;
  constexpr std::uint32_t line = 16;
  shape.states.conv_inputs = (shape.states.conv_inputs + line - 1) / line * line;
  shape.states.matrix_values = config.delta.state_values();
  return shape;
}

kv_cells::kv_cells(const kv_shape& shape, std::uint32_t num_blocks, std::uint32_t block_size,
                   device::buffer_memory& memory, const feature_shape& features)
    : num_blocks_(num_blocks), block_size_(block_size), memory_(memory), state_shape_(shape.states) {
  PACELINE_CHECK(num_blocks > 0 && block_size > 0, "a KV pool has at least one block of one cell");
  const kv_type_traits traits = traits_of(shape.type);
  const std::uint64_t all_heads = size_product(size_product(2, shape.num_layers), shape.num_heads);
  if (all_heads > std::numeric_limits<std::uint32_t>::max()) throw std::bad_alloc();
  const auto make = [&](std::uint64_t bytes_per_cell) {
    block_array made{size_product(bytes_per_cell, block_size), nullptr};
    if (made.block_bytes == 0) return made;
    made.buffer = memory.allocate(size_product(made.block_bytes, num_blocks));
    // Written here, so that the first request does not wait for the first touch of the pages.
    made.buffer->fill(0, made.block_bytes, std::byte{0});
    return made;
  };
  values_ = make(size_product(all_heads, shape.head_dim * traits.value_bytes));
  scales_ = make(size_product(all_heads, traits.scale_bytes));
  features_ = {
      nullptr, {features.taps.begin(), features.taps.end()}, features.hidden_size, num_blocks, block_size};
  feature_values_ = make(features_.bytes_per_token());
  if (feature_values_.buffer) features_.values = reinterpret_cast<float*>(feature_values_.buffer->data());
  const std::size_t layer_cells = std::size_t{shape.num_heads} * block_size; // in one block
  for (std::uint32_t l = 0; l < shape.num_layers; ++l) {
    device::kv_layer layer;
    layer.type = shape.type;
    layer.num_blocks = num_blocks;
    layer.block_size = block_size;
    layer.num_heads = shape.num_heads;
    layer.head_dim = shape.head_dim;
    layer.heads_per_block = static_cast<std::uint32_t>(all_heads);
    layer.keys = values_.buffer->data() + 2 * l * layer_cells * shape.head_dim * traits.value_bytes;
    layer.values = values_.buffer->data() + (2 * l + 1) * layer_cells * shape.head_dim * traits.value_bytes;
    if (scales_.buffer) {
      layer.key_scales = reinterpret_cast<float*>(scales_.buffer->data()) + 2 * l * layer_cells;
      layer.value_scales = layer.key_scales + layer_cells;
    }
    layers_.push_back(layer);
  }
}

void kv_cells::copy(device::ops& ops, std::span<const device::kv_copy> copies) {
  if (copies.empty()) return;
  for (const device::kv_layer& layer : layers_) ops.kv_copy({layer, copies});
  if (features()) features_.copy(ops, copies);
}

void kv_cells::copy_from(device::ops& ops, const kv_storage& from, std::span<const device::kv_copy> copies) {
  const auto* const other = dynamic_cast<const kv_cells*>(&from);
  PACELINE_CHECK(other != nullptr && other->num_layers() >= num_layers(),
                 "the pool copied from is of another model");
  if (copies.empty()) return;
  for (std::uint32_t l = 0; l < num_layers(); ++l) ops.kv_copy({layer(l), copies, &other->layer(l)});
}

void kv_cells::make_states(std::uint32_t num_slots) {
  PACELINE_CHECK(!states_, "a pool gets its states once");
  if (state_shape_.num_values() == 0) return;
  const std::uint64_t bytes = size_product(state_shape_.bytes(), num_slots);
  states_ = memory_.allocate(bytes); // not touched: a slot is written before it is read
  num_state_slots_ = num_slots;
}

float* kv_cells::state_of(std::uint32_t index) const {
  PACELINE_CHECK(states_ && index < state_shape_.num_layers, "the pool has no such states");
  return reinterpret_cast<float*>(states_->data()) + index * state_shape_.layer_values();
}

device::conv_states kv_cells::conv_states(std::uint32_t index) const {
  return {state_of(index), state_shape_.num_values(), num_state_slots_};
}

device::delta_states kv_cells::delta_states(std::uint32_t index) const {
  return {state_of(index) + state_shape_.conv_inputs, state_shape_.num_values(), num_state_slots_};
}

void kv_cells::poison_states(std::span<const state_slot> slots) {
  for (const state_slot slot : slots) {
    PACELINE_CHECK(slot.value < num_state_slots_, "state slot " + to_string(slot) + " is not of this pool");
    states_->fill(slot.value * state_shape_.bytes(), state_shape_.bytes(), std::byte{0xff});
  }
}

void kv_cells::poison(std::span<const block_id> blocks) {
  constexpr std::byte nan{0xff}; // all bits set is NaN in every float format, and so is a scale
  for (const block_id block : blocks) {
    PACELINE_CHECK(block.value < num_blocks_, "block " + to_string(block) + " is not of this pool");
    for (const block_array* array : {&values_, &scales_, &feature_values_})
      if (array->buffer) array->buffer->fill(block.value * array->block_bytes, array->block_bytes, nan);
  }
}

} // namespace paceline::model
