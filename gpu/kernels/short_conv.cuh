// A short convolution (runtime/device/op_short_conv.hpp), with a gate before it in two launches: rows of one
// pass read each other's inputs, so these are all multiplied before any row reads one.
#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/params.hpp"

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

PACELINE_KERNEL gate_conv_inputs(gate_conv_inputs_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.width) return;
  const std::size_t at = block_y() * p.stride + i;
  p.u[at] = p.gate[at] * p.u[at];
}

/// The input of a tap that reads from `source` (gpu/conv_sources.hpp).
PACELINE_DEVICE float conv_input(const short_conv_params& p, std::int32_t source, std::uint32_t i) {
  if (source >= 0) return p.u[static_cast<std::size_t>(source) * p.stride + i];
  if (source == -1) return 0.0F;
  const std::size_t record = static_cast<std::size_t>(-2 - source), num_records = p.num_taps - 1;
  return p.states[record / num_records * p.slot_stride + record % num_records * p.width + i];
}

PACELINE_KERNEL short_conv(short_conv_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.width) return;
  const std::size_t at = block_y() * p.stride + i, num_records = p.num_taps - 1;
  const std::int32_t* const sources = p.sources + block_y() * num_records;
  const std::int32_t slot = p.slots[block_y()];
  float* const state = slot < 0 ? nullptr : p.states + static_cast<std::size_t>(slot) * p.slot_stride + i;
  float sum = 0.0F;
  for (std::size_t k = 0; k <= num_records; ++k) {
    const float input = k < num_records ? conv_input(p, sources[k], i) : p.u[at];
    sum = sum + p.weights[k * p.width + i] * input;
    if (state != nullptr && k > 0) state[(k - 1) * p.width] = input;
  }
  if (p.bias != nullptr) sum = sum + p.bias[i];
  p.out[at] = p.out_gate != nullptr ? p.out_gate[at] * sum : sum;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
