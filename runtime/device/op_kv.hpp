#pragma once

#include "runtime/base/kv_type.hpp"
#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Largest head dimension that kv_write and attention support.
inline constexpr std::uint32_t max_head_dim = 512;

/// Keys and values of one layer in a pool of blocks. In memory the position is the fastest index of keys, so
/// that one load reads the same dimension of adjacent positions. The fastest index of values is the
/// dimension. Only q8 has scales; their fastest index is the position. S is the number of heads from one
/// block to the next (`block_stride_heads()`):
///
///     key   (block b, head h, cell c, dimension d) at ((b * S + h) * head_dim + d) * block_size + c
///     value (block b, head h, cell c, dimension d) at ((b * S + h) * block_size + c) * head_dim + d
///     scale (block b, head h, cell c)              at (b * S + h) * block_size + c
struct kv_layer {
  void* keys = nullptr;
  void* values = nullptr;
  kv_type type = kv_type::f16;
  std::uint32_t num_blocks = 0;
  std::uint32_t block_size = 0; ///< cells in a block; multiples of 16 are fast
  std::uint32_t num_heads = 0;  ///< key-value heads
  std::uint32_t head_dim = 0;   ///< at most max_head_dim
  float* key_scales = nullptr;  ///< q8 only, as are value_scales
  float* value_scales = nullptr;
  /// If all layers share the memory to which `keys` and `values` point: the number of heads of a block there,
  /// which is the sum of 2 * num_heads over the layers. 0: each array holds only this layer's keys or values.
  std::uint32_t heads_per_block = 0;

  constexpr std::size_t block_stride_heads() const noexcept {
    return heads_per_block != 0 ? heads_per_block : num_heads;
  }
  constexpr std::size_t key_index(block_id block, std::uint32_t head, std::uint32_t cell,
                                  std::uint32_t d) const noexcept {
    return ((block.value * block_stride_heads() + head) * head_dim + d) * block_size + cell;
  }
  constexpr std::size_t value_index(block_id block, std::uint32_t head, std::uint32_t cell,
                                    std::uint32_t d) const noexcept {
    return scale_index(block, head, cell) * head_dim + d;
  }
  constexpr std::size_t scale_index(block_id block, std::uint32_t head, std::uint32_t cell) const noexcept {
    return (block.value * block_stride_heads() + head) * block_size + cell;
  }
};

/// True if cells of one layer can be copied into the other: element type, block size, number of heads and
/// head dimension are equal.
constexpr bool cells_alike(const kv_layer& a, const kv_layer& b) noexcept {
  return a.type == b.type && a.block_size == b.block_size && a.num_heads == b.num_heads &&
         a.head_dim == b.head_dim;
}

/// Writes each row's keys and values into its slot. f16, bf16: rounded (nearest, ties to even). q8: for the
/// head_dim values x of one head, in float32,
/// - a = the largest |x|; scale = a / 127; code = x * (127 / a), rounded (nearest integer, ties to even);
/// - if a < 2^-100, scale and codes are 0;
/// - if an x is not finite, the scale is NaN (0x7fc00000) and the codes are 0.
/// A stored value is code * scale.
struct kv_write_args {
  const row_batch* batch = nullptr;
  kv_layer layer;
  const float* keys = nullptr;   ///< [num_rows][num_heads * head_dim], rows `stride` values apart
  const float* values = nullptr; ///< likewise
  std::size_t stride = 0;
};

/// Copies cells with their scales, within one pool or from another pool of the same device. Within one pool,
/// copies are made in order. From another pool, no cell may be the target of two copies.
struct kv_copy_args {
  kv_layer layer;
  std::span<const kv_copy> copies;
  const kv_layer* from = nullptr; ///< the other pool, for which `cells_alike` is true; null: `layer` itself

  const kv_layer& source() const noexcept { return from != nullptr ? *from : layer; }
};

/// Throws check_failure unless all copies lie within their pools and `cells_alike` is true for the two
/// layers.
void check_copies(const kv_copy_args& args);

} // namespace paceline::device
