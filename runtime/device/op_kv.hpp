#pragma once

#include "runtime/device/row_batch.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Largest head that kv_write and attention take.
inline constexpr std::uint32_t max_head_dim = 512;

/// One layer's keys and values in a pool of blocks. Keys lie position-minor, so that one load brings the same
/// dimension of neighbouring positions; values lie dimension-minor:
///
///     key   (block b, head h, cell c, dimension d) at ((b * num_heads + h) * head_dim + d) * block_size + c
///     value (block b, head h, cell c, dimension d) at ((b * num_heads + h) * block_size + c) * head_dim + d
struct kv_layer {
  void* keys = nullptr;
  void* values = nullptr;
  tensor_type type = tensor_type::f16; ///< f16 or f32
  std::uint32_t num_blocks = 0;
  std::uint32_t block_size = 0; ///< cells a block; whole multiples of 16 are fast
  std::uint32_t num_heads = 0;  ///< key-value heads
  std::uint32_t head_dim = 0;   ///< at most max_head_dim

  std::size_t key_index(block_id block, std::uint32_t head, std::uint32_t cell,
                        std::uint32_t d) const noexcept {
    return ((std::size_t{block.value} * num_heads + head) * head_dim + d) * block_size + cell;
  }
  std::size_t value_index(block_id block, std::uint32_t head, std::uint32_t cell,
                          std::uint32_t d) const noexcept {
    return ((std::size_t{block.value} * num_heads + head) * block_size + cell) * head_dim + d;
  }
  /// Values in `keys`, and in `values`.
  std::size_t num_values() const noexcept {
    return std::size_t{num_blocks} * num_heads * head_dim * block_size;
  }
};

/// Writes each row's keys and values into its slot, rounded to the pool's type (nearest, ties to even).
struct kv_write_args {
  const row_batch* batch = nullptr;
  kv_layer layer;
  const float* keys = nullptr;   ///< [num_rows][num_heads * head_dim], rows `stride` values apart
  const float* values = nullptr; ///< likewise
  std::size_t stride = 0;
};

/// Moves cells within one layer's pool, in order.
struct kv_copy_args {
  kv_layer layer;
  std::span<const kv_copy> copies;
};

} // namespace paceline::device
