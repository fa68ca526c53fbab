#pragma once

#include "gpu/kernels/activation.cuh"
#include "gpu/kernels/intrinsics.cuh"
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

/// The sum of 16 lanes, added in halves; the same in all lanes of the warp.
PACELINE_DEVICE float add_lanes(float lane) {
  for (std::uint32_t half = 8; half > 0; half /= 2) lane = lane + shuffle_xor(lane, half);
  return lane;
}

/// What a warp multiplies a vector by to norm it: the same in all its lanes.
PACELINE_DEVICE float norm_scale(const float* x, std::uint32_t width, float epsilon) {
  float sum = 0; // the upper half of the warp repeats the lower one
  for (std::uint32_t i = lane_index() % 16; i < width; i += 16) sum = std::fma(x[i], x[i], sum);
  const float mean = add_lanes(sum) / static_cast<float>(width);
  return 1.0F / std::sqrt(mean + epsilon);
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

PACELINE_DEVICE void do_block(const residual_norm_params& p, grid_place block) {
  const float* const x = p.x + block.y * p.x_stride;
  float* const hidden = p.hidden + block.y * p.hidden_stride;
  float* const y = p.y + block.y * p.y_stride;
  const float of_x = norm_scale(x, p.width, p.epsilon);
  for (std::uint32_t i = lane_index(); i < p.width; i += warp_size)
    hidden[i] = hidden[i] + (x[i] * of_x) * p.post_weight[i];
  if (p.weight == nullptr) return;
  sync_warp(); // all of the row is added
  const float scale = norm_scale(hidden, p.width, p.epsilon);
  for (std::uint32_t i = lane_index(); i < p.width; i += warp_size) y[i] = (hidden[i] * scale) * p.weight[i];
}
PACELINE_KERNEL residual_norm(residual_norm_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const rope_params& p, grid_place block) {
  const std::uint32_t pair = block.index_in_row();
  if (pair >= p.num_heads * p.num_pairs) return;
  const std::uint32_t i = pair % p.num_pairs;
  const bool half_split = p.layout == device::rope_layout::half_split;
  const float* const cosines = p.table + std::size_t{block.y} * 2 * p.num_pairs;
  const float cosine = cosines[i], sine = cosines[p.num_pairs + i];
  float* const x = p.x + block.y * p.stride + std::size_t{pair / p.num_pairs} * p.head_dim;
  float& first = x[half_split ? i : 2 * i];
  float& second = x[half_split ? i + p.num_pairs : 2 * i + 1];
  const float a = first, b = second;
  first = std::fma(a, cosine, -(b * sine));
  second = std::fma(b, cosine, a * sine);
}
PACELINE_KERNEL rope(rope_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_DEVICE void do_block(const glu_params& p, grid_place block) {
  const std::uint32_t i = block.index_in_row();
  if (i >= p.width) return;
  p.out[block.y * p.out_stride + i] =
      activate(p.act, p.gate[block.y * p.stride + i]) * p.up[block.y * p.stride + i];
}
PACELINE_KERNEL glu(glu_params p) {
  begin_in_turn();
  do_block(p, own_place());
}

PACELINE_KERNEL add(add_params p) {
  begin_in_turn();
  const std::uint32_t i = own_place().index_in_row();
  if (i >= p.width) return;
  float& y = p.y[block_y() * p.y_stride + i];
  y = y + p.x[block_y() * p.x_stride + i];
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

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
