#pragma once

#include "gpu/kernels/add_splits.cuh"
#include "gpu/kernels/arrange_rows.cuh"
#include "gpu/kernels/chain_params.hpp"
#include "gpu/kernels/choose.cuh"
#include "gpu/kernels/finish_heads.cuh"
#include "gpu/kernels/kv_kernels.cuh"
#include "gpu/kernels/merge_attention.cuh"
#include "gpu/kernels/row_kernels.cuh"
#include "gpu/kernels/split_attention.cuh"
#include "gpu/kernels/streamed_matmul.cuh"

// Several passes of a small model in one launch (gpu/kernels/chain_params.hpp). Each stage does the work of a
// separate kernel, with the same functions over the same blocks, so a pass has the same bits as with separate
// kernels.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// Copies the parameters to registers. Otherwise each write of the stage would make the compiler read them
/// from shared memory again, because it cannot exclude that the write has changed them.
template <class Params>
PACELINE_DEVICE Params params_of(const chain_stage& stage) {
  static_assert(sizeof(Params) <= stage_params_bytes);
  return *reinterpret_cast<const Params*>(stage.params);
}

template <tensor_type Type>
PACELINE_DEVICE void do_product(const chain_stage& stage, grid_place block) {
  // The rows, at most max_chain_rows, fit in one tile. The blocks have synchronised before the stage, so no
  // further waiting is needed.
  multiply_strips<Type, 1>(params_of<streamed_params>(stage), block, [] {});
}
static_assert(device::max_chain_rows <= token_tile);

/// Computes one block of a product; a chain spends most of its time here. Returns false if the stage is not a
/// product.
PACELINE_DEVICE bool do_product(const chain_stage& stage, grid_place block) {
  switch (stage.kernel) {
  case kernel_id::stream_q4_0:
    return do_product<tensor_type::q4_0>(stage, block), true;
  case kernel_id::stream_q4_1:
    return do_product<tensor_type::q4_1>(stage, block), true;
  case kernel_id::stream_q4_k:
    return do_product<tensor_type::q4_k>(stage, block), true;
  case kernel_id::stream_q5_0:
    return do_product<tensor_type::q5_0>(stage, block), true;
  case kernel_id::stream_q5_k:
    return do_product<tensor_type::q5_k>(stage, block), true;
  case kernel_id::stream_q6_k:
    return do_product<tensor_type::q6_k>(stage, block), true;
  case kernel_id::stream_q8_0:
    return do_product<tensor_type::q8_0>(stage, block), true;
  case kernel_id::stream_f8:
    return do_product<tensor_type::f8_e4m3>(stage, block), true;
  case kernel_id::stream_f16:
    return do_product<tensor_type::f16>(stage, block), true;
  case kernel_id::stream_bf16:
    return do_product<tensor_type::bf16>(stage, block), true;
  default:
    return false;
  }
}

/// Does the work of one block of the stage's kernel. Other kernels cannot be stages (gpu/chain_plan.cpp).
PACELINE_DEVICE void do_stage(const chain_stage& stage, grid_place block) {
  if (do_product(stage, block)) return;
  switch (stage.kernel) {
  case kernel_id::embed:
    return do_block(params_of<embed_params>(stage), block);
  case kernel_id::rms_norm:
    return do_block(params_of<rms_norm_params>(stage), block);
  case kernel_id::add_normed:
    return do_block(params_of<add_normed_params>(stage), block);
  case kernel_id::arrange_rows:
    return do_block(params_of<arrange_rows_params>(stage), block);
  case kernel_id::add_splits:
    return do_block(params_of<add_splits_params>(stage), block);
  case kernel_id::finish_heads:
    return do_block(params_of<finish_heads_params>(stage), block);
  case kernel_id::rope:
    return do_block(params_of<rope_params>(stage), block);
  case kernel_id::kv_write:
    return do_block(params_of<kv_write_params>(stage), block);
  case kernel_id::attend_f32:
    return attend_tile<kv_type::f32, chain_queries>(params_of<attend_params>(stage), block);
  case kernel_id::attend_f16:
    return attend_tile<kv_type::f16, chain_queries>(params_of<attend_params>(stage), block);
  case kernel_id::attend_bf16:
    return attend_tile<kv_type::bf16, chain_queries>(params_of<attend_params>(stage), block);
  case kernel_id::attend_q8:
    return attend_tile<kv_type::q8, chain_queries>(params_of<attend_params>(stage), block);
  case kernel_id::merge_attention:
    return do_block(params_of<merge_attention_params>(stage), block);
  case kernel_id::glu:
    return do_block(params_of<glu_params>(stage), block);
  case kernel_id::add:
    return do_block(params_of<add_params>(stage), block);
  case kernel_id::gather:
    return do_block(params_of<gather_params>(stage), block);
  case kernel_id::edit_logits:
    return do_block(params_of<edit_logits_params>(stage), block);
  case kernel_id::chunk_maxima:
    return do_block(params_of<chunk_maxima_params>(stage), block);
  case kernel_id::choose_rows:
    return do_block(params_of<choose_rows_params>(stage), block);
  default:
    return;
  }
}

/// Does the share of this block of draft_chain in a stage: every `num_blocks`-th block of the stage or, if
/// the stage's blocks are single warps, every `num_blocks`-th group of four of them. Block 0 does all of a
/// small stage.
PACELINE_DEVICE void do_share(const draft_chain_params& p, const chain_stage& stage) {
  if (stage.is_small && block_x() != 0) return;
  const std::uint32_t num_workers = stage.is_small ? 1 : p.num_blocks;
  const std::uint32_t worker =
      stage.is_small ? 0 : (block_x() + p.num_blocks - stage.first_block) % p.num_blocks;
  const std::uint32_t at_a_time = stage.by_warps ? chain_threads / warp_size : 1;
  for (std::uint32_t first = worker * at_a_time; first < stage.num_blocks; first += num_workers * at_a_time) {
    const std::uint32_t number = first + (stage.by_warps ? warp_index() : 0);
    if (number < stage.num_blocks) do_stage(stage, {number % stage.blocks_x, number / stage.blocks_x});
    sync_block(); // the next block reuses the shared memory
  }
}

/// Records the choices of the previous step, and writes the values that the stages read in step `step`. Only
/// block 0 calls it.
PACELINE_DEVICE void begin_step(const chain_steps& c, std::uint32_t step) {
  if (thread_index() < c.num_rows) {
    const std::uint32_t r = thread_index();
    row_choice chosen{};
    if (step > 0) {
      chosen = c.choices[r];
      const std::int32_t level = c.rows[(step - 1) * c.num_rows + r].level;
      if (level >= 0) {
        const std::uint32_t place = r * c.num_levels + static_cast<std::uint32_t>(level);
        c.drafted[place] = chosen.token;
        c.out[place] = {chosen.token, chosen.hopeless};
      }
    }
    if (step < c.num_steps) {
      device::chain_row next = c.rows[step * c.num_rows + r];
      if (next.entry.token.value < 0) next.entry.token = chosen.token;
      c.entries[r] = next.entry;
      c.tokens[r] = next.entry.token;
      const std::uint32_t level = next.level < 0 ? 0 : static_cast<std::uint32_t>(next.level);
      c.choosing[r] = {r, level, {r * c.num_levels, level}};
    }
  }
  if (step == c.num_steps) return;
  for (std::uint32_t t = 0; t < 2; ++t) {
    const chain_table& table = c.tables[t];
    for (std::uint32_t i = thread_index(); i < table.num_values; i += chain_threads)
      table.to[i] = table.from[std::size_t{step} * table.num_values + i];
  }
}

PACELINE_KERNEL draft_chain(draft_chain_params p) {
  // The current stage, and the next one, which is loaded meanwhile.
  auto* const slots = reinterpret_cast<std::uint32_t*>(shared_memory<std::byte>() + p.slots_at);
  const auto word_of = [&](std::uint32_t stage) {
    return reinterpret_cast<const std::uint32_t*>(p.stages + stage % p.num_stages)[thread_index()];
  };
  std::uint32_t num_met = 0, slot = 0;
  const auto meet = [&] { sync_grid(p.arrived, ++num_met * p.num_blocks); };
  slots[thread_index()] = word_of(0);
  sync_block();
  for (std::uint32_t step = 0; step < p.steps.num_steps; ++step) {
    if (p.waits_at_end && step > 0) meet();
    if (block_x() == 0) begin_step(p.steps, step);
    sync_block();
    for (std::uint32_t s = 0; s < p.num_stages; ++s) {
      const chain_stage& stage = *reinterpret_cast<const chain_stage*>(slots + slot * chain_threads);
      const std::uint32_t next_word = word_of(s + 1);
      if (stage.waits) meet();
      do_share(p, stage);
      slot = 1 - slot;
      slots[slot * chain_threads + thread_index()] = next_word;
      sync_block();
    }
  }
  if (p.waits_at_end) meet();
  if (block_x() == 0) begin_step(p.steps, p.steps.num_steps);
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
