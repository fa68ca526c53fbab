#pragma once

#include "runtime/device/buffer.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/language_model.hpp"

#include <memory>
#include <vector>

namespace paceline::model {

/// Shape of one layer's keys and values.
struct kv_shape {
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0; ///< key-value heads
  std::uint32_t head_dim = 0;
  device::tensor_type type = device::tensor_type::f16; ///< f16 or f32

  std::uint64_t bytes_per_token() const noexcept {
    const std::uint64_t value_bytes = type == device::tensor_type::f16 ? 2 : 4;
    return 2 * value_bytes * num_layers * num_heads * head_dim;
  }
};

/// Keys and values of a transformer: one buffer a layer, keys first, each in the layout of
/// `device::kv_layer`.
class kv_cells final : public kv_storage {
 public:
  /// Throws std::bad_alloc, also where the size is beyond 64 bits. `memory` outlives the storage.
  kv_cells(const kv_shape& shape, std::uint32_t num_blocks, std::uint32_t block_size,
           device::buffer_memory& memory);

  std::uint32_t num_blocks() const noexcept override { return num_blocks_; }
  std::uint32_t block_size() const noexcept override { return block_size_; }
  void copy(device::ops& ops, std::span<const device::kv_copy> copies) override;
  void poison(std::span<const block_id> blocks) override;

  const device::kv_layer& layer(std::uint32_t index) const noexcept { return layers_[index]; }
  std::uint32_t num_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }

 private:
  std::uint32_t num_blocks_;
  std::uint32_t block_size_;
  std::uint64_t block_bytes_; ///< of the keys, and of the values, of one block in one layer
  std::vector<std::unique_ptr<device::buffer>> buffers_;
  std::vector<device::kv_layer> layers_;
};

} // namespace paceline::model
