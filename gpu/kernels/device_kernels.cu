// The kernels for GPUs: the only source that nvcc compiles.
#include "gpu/kernels/add_experts.cuh"
#include "gpu/kernels/add_splits.cuh"
#include "gpu/kernels/arrange_rows.cuh"
#include "gpu/kernels/attention.cuh"
#include "gpu/kernels/choose.cuh"
#include "gpu/kernels/draft_chain.cuh"
#include "gpu/kernels/expert_matmul.cuh"
#include "gpu/kernels/expert_segments.cuh"
#include "gpu/kernels/expert_stream.cuh"
#include "gpu/kernels/finish_heads.cuh"
#include "gpu/kernels/gated_delta.cuh"
#include "gpu/kernels/halves.cuh"
#include "gpu/kernels/kernel_table.hpp"
#include "gpu/kernels/kv_commit.cuh"
#include "gpu/kernels/kv_kernels.cuh"
#include "gpu/kernels/matmul.cuh"
#include "gpu/kernels/merge_attention.cuh"
#include "gpu/kernels/pack_weights.cuh"
#include "gpu/kernels/probe.cuh"
#include "gpu/kernels/route_rows.cuh"
#include "gpu/kernels/row_kernels.cuh"
#include "gpu/kernels/short_conv.cuh"
#include "gpu/kernels/split_attention.cuh"
#include "gpu/kernels/streamed_matmul.cuh"

namespace paceline::gpu {

const void* device_function(kernel_id kernel) noexcept {
  const auto address = [](auto* function) { return reinterpret_cast<const void*>(function); };
  switch (kernel) {
  case kernel_id::quantise_rows:
    return address(&on_gpu::quantise_rows);
  case kernel_id::matmul_quantised:
    return address(&on_gpu::matmul_quantised);
  case kernel_id::matmul_float:
    return address(&on_gpu::matmul_float);
  case kernel_id::embed:
    return address(&on_gpu::embed);
  case kernel_id::rms_norm:
    return address(&on_gpu::rms_norm);
  case kernel_id::add_normed:
    return address(&on_gpu::add_normed);
  case kernel_id::rope:
    return address(&on_gpu::rope);
  case kernel_id::glu:
    return address(&on_gpu::glu);
  case kernel_id::add:
    return address(&on_gpu::add);
  case kernel_id::gather:
    return address(&on_gpu::gather);
  case kernel_id::scatter:
    return address(&on_gpu::scatter);
  case kernel_id::gate_conv_inputs:
    return address(&on_gpu::gate_conv_inputs);
  case kernel_id::short_conv:
    return address(&on_gpu::short_conv);
  case kernel_id::gated_delta:
    return address(&on_gpu::gated_delta);
  case kernel_id::kv_write:
    return address(&on_gpu::kv_write);
  case kernel_id::kv_copy:
    return address(&on_gpu::kv_copy);
  case kernel_id::kv_commit:
    return address(&on_gpu::kv_commit);
  case kernel_id::attention:
    return address(&on_gpu::attention);
  case kernel_id::attend_f32:
    return address(&on_gpu::attend_f32);
  case kernel_id::attend_f16:
    return address(&on_gpu::attend_f16);
  case kernel_id::attend_bf16:
    return address(&on_gpu::attend_bf16);
  case kernel_id::attend_q8:
    return address(&on_gpu::attend_q8);
  case kernel_id::merge_attention:
    return address(&on_gpu::merge_attention);
  case kernel_id::edit_logits:
    return address(&on_gpu::edit_logits);
  case kernel_id::chunk_maxima:
    return address(&on_gpu::chunk_maxima);
  case kernel_id::choose_rows:
    return address(&on_gpu::choose_rows);
  case kernel_id::walk_drafts:
    return address(&on_gpu::walk_drafts);
  case kernel_id::pack_weights:
    return address(&on_gpu::pack_weights);
  case kernel_id::scale_weight_rows:
    return address(&on_gpu::scale_weight_rows);
  case kernel_id::arrange_rows:
    return address(&on_gpu::arrange_rows);
#define PACELINE_STREAM_KERNELS(format)                                                                      \
  case kernel_id::stream_##format:                                                                           \
    return address(&on_gpu::stream_##format);                                                                \
  case kernel_id::stream16_##format:                                                                         \
    return address(&on_gpu::stream16_##format);                                                              \
  case kernel_id::stream32_##format:                                                                         \
    return address(&on_gpu::stream32_##format);                                                              \
  case kernel_id::stream64_##format:                                                                         \
    return address(&on_gpu::stream64_##format);
    PACELINE_FOR_STREAMED_FORMATS(PACELINE_STREAM_KERNELS)
#undef PACELINE_STREAM_KERNELS
  case kernel_id::add_splits:
    return address(&on_gpu::add_splits);
  case kernel_id::finish_heads:
    return address(&on_gpu::finish_heads);
  case kernel_id::draft_chain:
    return address(&on_gpu::draft_chain);
  case kernel_id::halve_weights:
    return address(&on_gpu::halve_weights);
  case kernel_id::halve_rows:
    return address(&on_gpu::halve_rows);
  case kernel_id::finish_products:
    return address(&on_gpu::finish_products);
  case kernel_id::route_rows:
    return address(&on_gpu::route_rows);
  case kernel_id::sort_pairs:
    return address(&on_gpu::sort_pairs);
  case kernel_id::weigh_rows:
    return address(&on_gpu::weigh_rows);
  case kernel_id::expert_q4_0:
    return address(&on_gpu::expert_q4_0);
  case kernel_id::expert_q4_1:
    return address(&on_gpu::expert_q4_1);
  case kernel_id::expert_q4_k:
    return address(&on_gpu::expert_q4_k);
  case kernel_id::expert_q5_0:
    return address(&on_gpu::expert_q5_0);
  case kernel_id::expert_q5_k:
    return address(&on_gpu::expert_q5_k);
  case kernel_id::expert_q6_k:
    return address(&on_gpu::expert_q6_k);
  case kernel_id::expert_q8_0:
    return address(&on_gpu::expert_q8_0);
  case kernel_id::expert_f8:
    return address(&on_gpu::expert_f8);
  case kernel_id::expert_f16:
    return address(&on_gpu::expert_f16);
  case kernel_id::expert_bf16:
    return address(&on_gpu::expert_bf16);
  case kernel_id::expert_quantised:
    return address(&on_gpu::expert_quantised);
  case kernel_id::expert_float:
    return address(&on_gpu::expert_float);
  case kernel_id::add_experts:
    return address(&on_gpu::add_experts);
  case kernel_id::probe_intrinsics:
    return address(&on_gpu::probe_intrinsics);
  case kernel_id::probe_turns:
    return address(&on_gpu::probe_turns);
  case kernel_id::read_memory:
    return address(&on_gpu::read_memory);
  }
  return nullptr;
}

} // namespace paceline::gpu
