#pragma once

#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/params.hpp"
#include "runtime/device/float16.hpp"

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Value `index` of a pool array; for a q8 pool the code.
PACELINE_DEVICE float stored_value(const void* values, kv_type type, std::size_t index) {
  switch (type) {
  case kv_type::f32:
    return static_cast<const float*>(values)[index];
  case kv_type::bf16:
    return device::float_of_bf16(static_cast<const device::bfloat16*>(values)[index].bits);
  case kv_type::q8:
    return static_cast<const std::int8_t*>(values)[index];
  case kv_type::f16:
    break;
  }
  return device::float_of_f16(static_cast<const std::uint16_t*>(values)[index]);
}

PACELINE_DEVICE void store_value(void* values, kv_type type, std::size_t index, float value) {
  switch (type) {
  case kv_type::f32:
    static_cast<float*>(values)[index] = value;
    return;
  case kv_type::bf16:
    static_cast<device::bfloat16*>(values)[index].bits = device::bf16_of_float(value);
    return;
  case kv_type::q8:
    static_cast<std::int8_t*>(values)[index] = static_cast<std::int8_t>(value);
    return;
  case kv_type::f16:
    break;
  }
  static_cast<std::uint16_t*>(values)[index] = device::f16_of_float(value);
}

/// The location of a slot of a sequence in the pool.
struct cell_place {
  block_id block;
  std::uint32_t cell;
};

PACELINE_DEVICE cell_place place_of(const batch_view& batch, std::uint32_t sequence, kv_slot slot,
                                    std::uint32_t block_size) {
  return {batch.blocks[batch.first_block[sequence] + slot.value / block_size], slot.value % block_size};
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
