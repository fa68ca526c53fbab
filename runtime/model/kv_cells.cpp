#include "runtime/model/kv_cells.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/ops.hpp"

#include <new>

namespace paceline::model {
namespace {

/// Product that fails like an allocation too large to make.
std::uint64_t size_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw std::bad_alloc();
  return product;
}

} // namespace

kv_cells::kv_cells(const kv_shape& shape, std::uint32_t num_blocks, std::uint32_t block_size,
                   device::buffer_memory& memory)
    : num_blocks_(num_blocks), block_size_(block_size) {
  PACELINE_CHECK(num_blocks > 0 && block_size > 0, "a KV pool has at least one block of one cell");
  const std::uint64_t value_bytes = shape.type == device::tensor_type::f16 ? 2 : 4;
  block_bytes_ = size_product(size_product(value_bytes * block_size, shape.num_heads), shape.head_dim);
  const std::uint64_t pool_bytes = size_product(block_bytes_, num_blocks);
  for (std::uint32_t l = 0; l < shape.num_layers; ++l) {
    buffers_.push_back(memory.allocate(size_product(pool_bytes, 2)));
    std::byte* keys = buffers_.back()->data();
    layers_.push_back(
        {keys, keys + pool_bytes, shape.type, num_blocks, block_size, shape.num_heads, shape.head_dim});
  }
}

void kv_cells::copy(device::ops& ops, std::span<const device::kv_copy> copies) {
  if (copies.empty()) return;
  for (const device::kv_layer& layer : layers_) ops.kv_copy({layer, copies});
}

void kv_cells::poison(std::span<const block_id> blocks) {
  constexpr std::byte nan{0xff}; // every float format reads all ones as NaN
  const std::uint64_t values = block_bytes_ * num_blocks_;
  for (const block_id block : blocks) {
    PACELINE_CHECK(block.value < num_blocks_, "block " + to_string(block) + " is not of this pool");
    for (const auto& buffer : buffers_) {
      buffer->fill(block.value * block_bytes_, block_bytes_, nan);
      buffer->fill(values + block.value * block_bytes_, block_bytes_, nan);
    }
  }
}

} // namespace paceline::model
