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

std::uint64_t size_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw std::bad_alloc();
  return sum;
}

std::uint64_t whole_lines(std::uint64_t size) {
  constexpr std::uint64_t line = 64;
  return size_sum(size, line - 1) / line * line;
}

} // namespace

kv_cells::kv_cells(const kv_shape& shape, std::uint32_t num_blocks, std::uint32_t block_size,
                   device::buffer_memory& memory)
    : num_blocks_(num_blocks), block_size_(block_size) {
  PACELINE_CHECK(num_blocks > 0 && block_size > 0, "a KV pool has at least one block of one cell");
  const kv_type_traits traits = traits_of(shape.type);
  const std::uint64_t heads = size_product(block_size, shape.num_heads); // heads of a block, over its cells
  const std::uint64_t value_bytes = size_product(size_product(heads, shape.head_dim), traits.value_bytes);
  const std::uint64_t scale_bytes = size_product(heads, traits.scale_bytes);
  std::uint64_t layer_bytes = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p] = {layer_bytes, p < 2 ? value_bytes : scale_bytes};
    layer_bytes = size_sum(layer_bytes, whole_lines(size_product(parts_[p].block_bytes, num_blocks)));
  }
  for (std::uint32_t l = 0; l < shape.num_layers; ++l) {
    buffers_.push_back(memory.allocate(layer_bytes));
    std::byte* const at = buffers_.back()->data();
    device::kv_layer layer{at,         at + parts_[1].begin, shape.type,    num_blocks,
                           block_size, shape.num_heads,      shape.head_dim};
    if (traits.scale_bytes != 0) {
      layer.key_scales = reinterpret_cast<float*>(at + parts_[2].begin);
      layer.value_scales = reinterpret_cast<float*>(at + parts_[3].begin);
    }
    layers_.push_back(layer);
  }
}

void kv_cells::copy(device::ops& ops, std::span<const device::kv_copy> copies) {
  if (copies.empty()) return;
  for (const device::kv_layer& layer : layers_) ops.kv_copy({layer, copies});
}

void kv_cells::poison(std::span<const block_id> blocks) {
  constexpr std::byte nan{0xff}; // every float format reads all ones as NaN, and so does a scale
  for (const block_id block : blocks) {
    PACELINE_CHECK(block.value < num_blocks_, "block " + to_string(block) + " is not of this pool");
    for (const auto& buffer : buffers_)
      for (const part& p : parts_)
        if (p.block_bytes != 0) buffer->fill(p.begin + block.value * p.block_bytes, p.block_bytes, nan);
  }
}

} // namespace paceline::model
