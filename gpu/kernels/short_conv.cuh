// A short convolution (runtime/device/op_short_conv.hpp). With a gate before it there are two launches,
// because rows of one pass read each other's inputs: the first multiplies all inputs by the gate.
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

/// Channel `i` of a tap's input.
PACELINE_DEVICE float conv_input_at(const short_conv_params& p, device::conv_input input, std::uint32_t i) {
  if (input.from == device::conv_input::source::row) return p.u[input.row_or_slot * p.stride + i];
  if (input.from == device::conv_input::source::zeros) return 0.0F;
  return p.states[input.row_or_slot * p.slot_stride + std::size_t{input.record} * p.width + i];
}

PACELINE_KERNEL short_conv(short_conv_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.width) return;
  const std::size_t at = block_y() * p.stride + i, num_records = p.num_taps - 1;
  const device::conv_input* const inputs = p.inputs + block_y() * num_records;
  const std::int32_t slot = p.slots[block_y()];
  float* const state = slot < 0 ? nullptr : p.states + static_cast<std::size_t>(slot) * p.slot_stride + i;
  float sum = 0.0F;
  for (std::size_t k = 0; k <= num_records; ++k) {
    const float input = k < num_records ? conv_input_at(p, inputs[k], i) : p.u[at];
    sum = sum + p.weights[k * p.width + i] * input;
    if (state != nullptr && k > 0) state[(k - 1) * p.width] = input;
  }
  if (p.bias != nullptr) sum = sum + p.bias[i];
  p.out[at] = p.out_gate != nullptr ? p.out_gate[at] * sum : sum;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
