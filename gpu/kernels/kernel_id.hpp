#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// The kernels, named after their functions.
enum class kernel_id : std::uint8_t {
  quantise_rows,
  matmul_quantised,
  matmul_float,
  embed,
  rms_norm,
  add_normed,
  rope,
  glu,
  add,
  gather,
  scatter,
  gate_conv_inputs,
  short_conv,
  gated_delta,
  kv_write,
  kv_copy,
  kv_commit,
  attention,
  attend_f32,
  attend_f16,
  attend_bf16,
  attend_q8,
  merge_attention,
  edit_logits,
  chunk_maxima,
  choose_rows,
  walk_drafts,
  pack_weights,
  scale_weight_rows,
  arrange_rows,
  stream_q4_0,
  stream_q4_1,
  stream_q4_k,
  stream_q5_0,
  stream_q5_k,
  stream_q6_k,
  stream_q8_0,
  stream_f8,
  stream_f16,
  stream_bf16,
  stream16_q4_0,
  stream16_q4_1,
  stream16_q4_k,
  stream16_q5_0,
  stream16_q5_k,
  stream16_q6_k,
  stream16_q8_0,
  stream16_f8,
  stream16_f16,
  stream16_bf16,
  stream32_q4_0,
  stream32_q4_1,
  stream32_q4_k,
  stream32_q5_0,
  stream32_q5_k,
  stream32_q6_k,
  stream32_q8_0,
  stream32_f8,
  stream32_f16,
  stream32_bf16,
  stream64_q4_0,
  stream64_q4_1,
  stream64_q4_k,
  stream64_q5_0,
  stream64_q5_k,
  stream64_q6_k,
  stream64_q8_0,
  stream64_f8,
  stream64_f16,
  stream64_bf16,
  add_splits,
  finish_heads,
  draft_chain,
  halve_weights,
  halve_rows,
  finish_products,
  route_rows,
  sort_pairs,
  weigh_rows,
  expert_q4_0,
  expert_q4_1,
  expert_q4_k,
  expert_q5_0,
  expert_q5_k,
  expert_q6_k,
  expert_q8_0,
  expert_f8,
  expert_f16,
  expert_bf16,
  expert_quantised,
  expert_float,
  add_experts,
  probe_intrinsics,
  probe_turns,
  read_memory,
};
inline constexpr std::size_t num_kernels = static_cast<std::size_t>(kernel_id::read_memory) + 1;

/// True if the kernel allows the next one to begin before it has ended, and itself waits for the end of the
/// previous one (let_next_begin and wait_for_previous, gpu/kernels/intrinsics.cuh). False for kernels that
/// write weights, because later kernels read weights without waiting. False for the chain, whose blocks must
/// all run at the same time, and for a kernel that only tests use.
constexpr bool takes_turns(kernel_id kernel) noexcept {
  switch (kernel) {
  case kernel_id::pack_weights:
  case kernel_id::scale_weight_rows:
  case kernel_id::draft_chain:
  case kernel_id::probe_intrinsics:
    return false;
  default:
    return true;
  }
}

} // namespace paceline::gpu
