// The kernels for the emulation.
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
#include "runtime/base/check.hpp"

namespace paceline::gpu {

void run_emulated_thread(kernel_id kernel, const void* params) {
  const auto run = [&]<class Params>(void (*function)(Params)) {
    function(*static_cast<const Params*>(params));
  };
  switch (kernel) {
  case kernel_id::quantise_rows:
    return run(&emulated::quantise_rows);
  case kernel_id::matmul_quantised:
    return run(&emulated::matmul_quantised);
  case kernel_id::matmul_float:
    return run(&emulated::matmul_float);
  case kernel_id::embed:
    return run(&emulated::embed);
  case kernel_id::rms_norm:
    return run(&emulated::rms_norm);
  case kernel_id::add_normed:
    return run(&emulated::add_normed);
  case kernel_id::rope:
    return run(&emulated::rope);
  case kernel_id::glu:
    return run(&emulated::glu);
  case kernel_id::add:
    return run(&emulated::add);
  case kernel_id::gather:
    return run(&emulated::gather);
  case kernel_id::scatter:
    return run(&emulated::scatter);
  case kernel_id::gate_conv_inputs:
    return run(&emulated::gate_conv_inputs);
  case kernel_id::short_conv:
    return run(&emulated::short_conv);
  case kernel_id::gated_delta:
    return run(&emulated::gated_delta);
  case kernel_id::kv_write:
    return run(&emulated::kv_write);
  case kernel_id::kv_copy:
    return run(&emulated::kv_copy);
  case kernel_id::kv_commit:
    return run(&emulated::kv_commit);
  case kernel_id::attention:
    return run(&emulated::attention);
  case kernel_id::attend_f32:
    return run(&emulated::attend_f32);
  case kernel_id::attend_f16:
    return run(&emulated::attend_f16);
  case kernel_id::attend_bf16:
    return run(&emulated::attend_bf16);
  case kernel_id::attend_q8:
    return run(&emulated::attend_q8);
  case kernel_id::merge_attention:
    return run(&emulated::merge_attention);
  case kernel_id::edit_logits:
    return run(&emulated::edit_logits);
  case kernel_id::chunk_maxima:
    return run(&emulated::chunk_maxima);
  case kernel_id::choose_rows:
    return run(&emulated::choose_rows);
  case kernel_id::walk_drafts:
    return run(&emulated::walk_drafts);
  case kernel_id::pack_weights:
    return run(&emulated::pack_weights);
  case kernel_id::scale_weight_rows:
    return run(&emulated::scale_weight_rows);
  case kernel_id::arrange_rows:
    return run(&emulated::arrange_rows);
#define PACELINE_STREAM_KERNELS(format)                                                                      \
  case kernel_id::stream_##format:                                                                           \
    return run(&emulated::stream_##format);                                                                  \
  case kernel_id::stream16_##format:                                                                         \
    return run(&emulated::stream16_##format);                                                                \
  case kernel_id::stream32_##format:                                                                         \
    return run(&emulated::stream32_##format);                                                                \
  case kernel_id::stream64_##format:                                                                         \
    return run(&emulated::stream64_##format);
    PACELINE_FOR_STREAMED_FORMATS(PACELINE_STREAM_KERNELS)
#undef PACELINE_STREAM_KERNELS
  case kernel_id::add_splits:
    return run(&emulated::add_splits);
  case kernel_id::finish_heads:
    return run(&emulated::finish_heads);
  case kernel_id::draft_chain:
    return run(&emulated::draft_chain);
  case kernel_id::halve_weights:
    return run(&emulated::halve_weights);
  case kernel_id::halve_rows:
    return run(&emulated::halve_rows);
  case kernel_id::finish_products:
    return run(&emulated::finish_products);
  case kernel_id::route_rows:
    return run(&emulated::route_rows);
  case kernel_id::sort_pairs:
    return run(&emulated::sort_pairs);
  case kernel_id::weigh_rows:
    return run(&emulated::weigh_rows);
  case kernel_id::expert_q4_0:
    return run(&emulated::expert_q4_0);
  case kernel_id::expert_q4_1:
    return run(&emulated::expert_q4_1);
  case kernel_id::expert_q4_k:
    return run(&emulated::expert_q4_k);
  case kernel_id::expert_q5_0:
    return run(&emulated::expert_q5_0);
  case kernel_id::expert_q5_k:
    return run(&emulated::expert_q5_k);
  case kernel_id::expert_q6_k:
    return run(&emulated::expert_q6_k);
  case kernel_id::expert_q8_0:
    return run(&emulated::expert_q8_0);
  case kernel_id::expert_f8:
    return run(&emulated::expert_f8);
  case kernel_id::expert_f16:
    return run(&emulated::expert_f16);
  case kernel_id::expert_bf16:
    return run(&emulated::expert_bf16);
  case kernel_id::expert_quantised:
    return run(&emulated::expert_quantised);
  case kernel_id::expert_float:
    return run(&emulated::expert_float);
  case kernel_id::add_experts:
    return run(&emulated::add_experts);
  case kernel_id::probe_intrinsics:
    return run(&emulated::probe_intrinsics);
  case kernel_id::probe_turns:
    return run(&emulated::probe_turns);
  case kernel_id::read_memory:
    return run(&emulated::read_memory);
  }
  PACELINE_CHECK(false, "no kernel " + std::to_string(static_cast<int>(kernel)));
}

} // namespace paceline::gpu
