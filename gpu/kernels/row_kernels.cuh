#pragma once

#include "gpu/kernels/activation.cuh"
#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/norm.cuh"
#include "gpu/kernels/pack_weights.cuh"
#include "gpu/kernels/params.hpp"
#include "gpu/kernels/weight_block.cuh"

#include <cmath>

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

PACELINE_DEVICE void embed_block(const embed_params& p, std::size_t row, std::uint32_t b, float* out) {
  weight_block w;
  if (p.streamed.bytes != nullptr)
    read_streamed_block(p.streamed, row, b, w);
  else
    read_weight_block(p.table, row, b, w);
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t g = i / w.group;
    const float value = w.d * static_cast<float>(w.scales[g]) * static_cast<float>(w.codes[i]); // exact
    out[i] = (w.has_mins ? value + w.m * static_cast<float>(w.mins[g]) : value) * p.scale;
  }
}

PACELINE_DEVICE void do_block(const embed_params& p, grid_place block) {
  const std::uint32_t b = block.index_in_row();
  if (b >= (p.table.num_cols + 31) / 32) return;
  const auto row = static_cast<std::size_t>(p.tokens[block.y].value);
  float* const out = p.out + block.y * p.out_stride;
  if (!device::is_floating(p.table.type)) {
    embed_block(p, row, b, out + b * 32);
    return;
  }
  for (std::uint32_t k = b * 32; k < b * 32 + 32 && k < p.table.num_cols; ++k) {
    const float value =
        p.streamed.bytes != nullptr ? streamed_value(p.streamed, row, k) : float_weight(p.table, row, k);
    out[k] = value * p.scale;
  }
}
PACELINE_KERNEL embed(embed_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const rms_norm_params& p, grid_place block) {
  const float* const x = p.x + block.y * p.x_stride + std::size_t{block.x} * p.width;
  float* const y = p.y + block.y * p.y_stride + std::size_t{block.x} * p.width;
  const float scale = norm_scale(x, p.width, p.epsilon);
  for (std::uint32_t i = lane_index(); i < p.width; i += warp_size) y[i] = (x[i] * scale) * p.weight[i];
}
PACELINE_KERNEL rms_norm(rms_norm_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

/// Each warp computes the norm of the whole row itself: synchronising would take longer.
PACELINE_DEVICE void do_block(const add_normed_params& p, grid_place block) {
  const float* const x = p.x + block.y * p.x_stride;
  float* const hidden = p.hidden + block.y * p.hidden_stride;
  const float scale = norm_scale(x, p.width, p.epsilon);
  for (std::uint32_t i = thread_index(); i < p.width; i += add_normed_threads)
    hidden[i] = hidden[i] + (x[i] * scale) * p.weight[i];
}
PACELINE_KERNEL add_normed(add_normed_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

/// Rotates pair `i` of `num_pairs` of a head. `angles`: the row's cosines, then its sines, [2 * num_pairs].
PACELINE_DEVICE void rotate_pair(float* head, std::uint32_t i, std::uint32_t num_pairs,
                                 device::rope_layout layout, const float* angles) {
  const bool half_split = layout == device::rope_layout::half_split;
  const float cosine = angles[i], sine = angles[num_pairs + i];
  float& first = head[half_split ? i : 2 * i];
  float& second = head[half_split ? i + num_pairs : 2 * i + 1];
  const float a = first, b = second;
  first = std::fma(a, cosine, -(b * sine));
  second = std::fma(b, cosine, a * sine);
}

PACELINE_DEVICE void do_block(const rope_params& p, grid_place block) {
  const std::uint32_t pair = block.index_in_row();
  if (pair >= p.num_heads * p.num_pairs) return;
  rotate_pair(p.x + block.y * p.stride + std::size_t{pair / p.num_pairs} * p.head_dim, pair % p.num_pairs,
              p.num_pairs, p.layout, p.table + std::size_t{block.y} * 2 * p.num_pairs);
}
PACELINE_KERNEL rope(rope_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const glu_params& p, grid_place block) {
  const std::uint32_t i = block.index_in_row();
  if (i >= p.width) return;
  const float active = activate(p.act, p.gate[block.y * p.stride + i]);
  p.out[block.y * p.out_stride + i] = p.up != nullptr ? active * p.up[block.y * p.stride + i] : active;
}
PACELINE_KERNEL glu(glu_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const add_params& p, grid_place block) {
  const std::uint32_t i = block.index_in_row();
  if (i >= p.width) return;
  float factor = p.scale;
  if (p.gate != nullptr)
    factor = factor * (1.0F / (1.0F + device::exp_reference(-p.gate[block.y * p.gate_stride])));
  float& y = p.y[block.y * p.y_stride + i];
  y = y + factor * p.x[block.y * p.x_stride + i];
}
PACELINE_KERNEL add(add_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const gather_params& p, grid_place block) {
  const std::uint32_t i = block.index_in_row();
  if (i >= p.width) return;
  const std::uint32_t from = p.rows != nullptr ? p.rows[block.y] : block.y;
  p.y[block.y * p.y_stride + i] = p.x[from * p.x_stride + i];
}
PACELINE_KERNEL gather(gather_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_KERNEL scatter(scatter_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.width) return;
  p.y[p.rows[block_y()] * p.y_stride + i] = p.x[block_y() * p.x_stride + i];
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
