// A gated delta rule (runtime/device/op_gated_delta.hpp). A block keeps a group of columns of one head's
// state in registers, from one row of a text (runtime/device/state_plan.hpp) to the next. Thread 16 * p + c
// has the elements i of column c with i mod 4 = p.
#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/params.hpp"
#include "runtime/device/scalar_math.hpp"

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// A thread's quarter of a column.
struct delta_quarter {
  static constexpr std::uint32_t most = device::max_delta_keys / 4;
  float values[most] = {};
  std::uint32_t part = 0;  ///< i mod 4
  std::uint32_t count = 0; ///< elements

  /// Reads `values` from `from`, the thread's column in an array [key_dim][16].
  PACELINE_DEVICE void load(const float* from) {
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < most; ++n)
      if (n < count) values[n] = from[(4 * n + part) * device::delta_columns];
  }
  PACELINE_DEVICE void store(float* to) const {
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < most; ++n)
      if (n < count) to[(4 * n + part) * device::delta_columns] = values[n];
  }
  PACELINE_DEVICE void clear() {
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < most; ++n) values[n] = 0;
  }
  /// values *= factor; returns the thread's part of S^T key.
  PACELINE_DEVICE float decay(float factor, const float* key) {
    float sum = 0;
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < most; ++n)
      if (n < count) {
        values[n] = values[n] * factor;
        sum = std::fma(key[4 * n + part], values[n], sum);
      }
    return sum;
  }
  /// values += key * change; returns the thread's part of S^T query.
  PACELINE_DEVICE float update(float change, const float* key, const float* query) {
    float sum = 0;
    PACELINE_UNROLL
    for (std::uint32_t n = 0; n < most; ++n)
      if (n < count) {
        values[n] = std::fma(key[4 * n + part], change, values[n]);
        sum = std::fma(query[4 * n + part], values[n], sum);
      }
    return sum;
  }
};

PACELINE_DEVICE float sum_of_parts(const float (&parts)[4][device::delta_columns], std::uint32_t column) {
  return (parts[0][column] + parts[1][column]) + (parts[2][column] + parts[3][column]);
}

PACELINE_KERNEL gated_delta(gated_delta_params p) {
  begin_in_turn();
  constexpr std::uint32_t columns = device::delta_columns;
  delta_memory& shared = *shared_memory<delta_memory>();
  const std::uint32_t head = block_x() / p.heads.num_groups(), group = block_x() % p.heads.num_groups();
  const std::uint32_t c = thread_index() % columns, column = group * columns + c;
  const std::size_t in_slot = std::size_t{block_x()} * p.heads.key_dim * columns + c;
  const std::size_t value_at = std::size_t{head} * p.heads.value_dim + column;
  delta_quarter state;
  state.part = thread_index() / columns;
  state.count = p.heads.key_dim / 4;
  for (std::uint32_t s = p.first[block_y()]; s < p.first[block_y() + 1]; ++s) {
    const device::state_step step = p.steps[s];
    const std::size_t at = std::size_t{step.row} * p.stride;
    const float* const query = p.x + at + std::size_t{p.heads.key_of(head)} * p.heads.key_dim;
    for (std::uint32_t i = thread_index(); i < p.heads.key_dim; i += delta_threads) {
      shared.q[i] = query[i];
      shared.k[i] = query[p.heads.keys_size() + i];
    }
    if (step.from == device::state_step::zeros)
      state.clear();
    else if (step.from != device::state_step::previous)
      state.load(p.states.values + static_cast<std::size_t>(step.from) * p.states.slot_stride + in_slot);
    const float pace = device::softplus_reference(p.alpha[at + head] + p.dt_bias[head]);
    const float decay = device::exp_reference(p.decay[head] * pace);
    const float beta = 1.0F / (1.0F + device::exp_reference(-p.beta[at + head]));
    const bool is_value = column < p.heads.value_dim;
    const float value = is_value ? p.x[at + 2 * p.heads.keys_size() + value_at] : 0.0F;
    sync_block();
    shared.seen[state.part][c] = state.decay(decay, shared.k);
    sync_block();
    const float change = beta * (value - sum_of_parts(shared.seen, c));
    shared.out[state.part][c] = state.update(change, shared.k, shared.q);
    if (step.to != device::state_step::nowhere)
      state.store(p.states.values + static_cast<std::size_t>(step.to) * p.states.slot_stride + in_slot);
    sync_block();
    if (state.part == 0 && is_value && step.repeated == 0)
      p.out[at + value_at] = sum_of_parts(shared.out, c) * p.scale;
  }
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
