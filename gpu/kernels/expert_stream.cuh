#pragma once

#include "gpu/kernels/expert_segments.cuh"
#include "gpu/kernels/streamed_matmul.cuh"

// Streamed products of a mixture of experts, with the same bits as the products of
// gpu/kernels/streamed_matmul.cuh. A block has pairs of one expert. Each lane reads its row from the place
// where all rows were arranged once, so rows are not gathered for each expert. The weights that a block reads
// are known only after routing, so none are loaded before the previous kernel has ended.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// The rows of x for the pairs of a segment, 8 in each tile. Places after the last pair repeat its row.
template <std::uint32_t NumTiles>
struct gathered_rows {
  arranged_rows x;
  std::uint32_t halves_at[NumTiles];  ///< offset of the lane's bytes in a unit
  std::uint32_t sums_at[NumTiles][2]; ///< rows whose products the lane has
};

template <std::uint32_t Unit, bool WithSums, std::uint32_t NumTiles>
PACELINE_DEVICE void read_rows(const gathered_rows<NumTiles>& rows, std::uint32_t tile,
                               unit_of_rows<NumTiles>& out) {
  const std::size_t tiles_before = std::size_t{tile * 2 + Unit} * rows.x.num_tiles;
  const std::byte* const halves = rows.x.halves + tiles_before * 512;
  const float* const sums = rows.x.sums + tiles_before * token_tile;
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    out.halves[j] = read_quad(halves + rows.halves_at[j]);
    if constexpr (WithSums)
      for (std::uint32_t i = 0; i < 2; ++i) out.sums[j][i] = sums[rows.sums_at[j][i]];
  }
}

template <std::uint32_t NumTiles>
PACELINE_DEVICE const std::uint32_t* sums_of_span(const gathered_rows<NumTiles>& rows, std::uint32_t span,
                                                  std::uint32_t j) {
  const std::byte* const at = rows.x.sum_halves + std::size_t{span} * rows.x.num_tiles * 256;
  return reinterpret_cast<const std::uint32_t*>(at + rows.halves_at[j] / 2);
}

/// Pair number `i` of the segment, or the segment's last pair if there is no pair `i`.
PACELINE_DEVICE std::uint32_t pair_of(const expert_stream_params& p, const expert_segment& segment,
                                      std::uint32_t i) {
  return pair_at(p.pairs, segment.first + (i < segment.count ? i : segment.count - 1));
}

template <std::uint32_t NumTiles>
PACELINE_DEVICE void find_rows(const expert_stream_params& p, const expert_segment& segment,
                               gathered_rows<NumTiles>& out) {
  out.x = p.x;
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    const std::uint32_t row = pair_of(p, segment, j * token_tile + lane_index() / 4) / p.pairs_of_row;
    out.halves_at[j] = row / token_tile * 512 + row % token_tile * 64 + lane_index() % 4 * 16;
    for (std::uint32_t i = 0; i < 2; ++i)
      out.sums_at[j][i] = pair_of(p, segment, j * token_tile + lane_index() % 4 * 2 + i) / p.pairs_of_row;
  }
}

/// Calls `store` for each of the lane's sums that has a pair and an output. The arguments are the sum's two
/// indices in a `strip_sums`, its pair, its output, and the factor of its row of x.
template <std::uint32_t NumTiles, class Store>
PACELINE_DEVICE void for_each_pair_sum(const expert_stream_params& p, const expert_segment& segment,
                                       std::uint32_t strip, const Store& store) {
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    PACELINE_UNROLL
    for (std::uint32_t r = 0; r < 2; ++r) {
      const std::uint32_t number = j * token_tile + lane_index() % 4 * 2 + r;
      if (number >= segment.count) continue;
      const std::uint32_t pair = pair_at(p.pairs, segment.first + number);
      const float scale = p.x.scales[pair / p.pairs_of_row];
      PACELINE_UNROLL
      for (std::uint32_t i = r; i < 4; i += 2) {
        const std::uint32_t n = strip * strip_rows + lane_index() / 4 + i / 2 * 8;
        if (n < p.weights.num_rows) store(j, i, pair, n, scale);
      }
    }
  }
}

/// Stores a sum of split `split` for a later kernel, or adds it to the sum of the splits before.
PACELINE_DEVICE void store_pair_sum(const expert_stream_params& p, std::uint32_t split, std::uint32_t pair,
                                    std::uint32_t n, float sum) {
  if (p.num_blocks > 1) {
    p.partial[(std::size_t{split} * p.pairs.num_pairs + pair) * p.weights.num_rows + n] = sum;
    return;
  }
  float& y = p.y[pair * p.y_stride + n];
  y = split == 0 ? sum : y + sum;
}

/// The same for the products of the gate and of `up`.
PACELINE_DEVICE void store_gated_pair(const expert_stream_params& p, std::uint32_t split, std::uint32_t pair,
                                      std::uint32_t n, float gate, float up) {
  if (p.num_blocks > 1) {
    const std::size_t at = (std::size_t{split} * p.pairs.num_pairs + pair) * p.weights.num_rows + n;
    p.partial[at] = gate;
    p.partial[std::size_t{p.num_splits} * p.pairs.num_pairs * p.weights.num_rows + at] = up;
    return;
  }
  float &y = p.y[pair * p.y_stride + n], &y_up = p.y_up[pair * p.y_stride + n];
  if (split != 0) gate = y + gate, up = y_up + up;
  if (split + 1 == p.num_splits)
    y = activate(p.act, gate) * up;
  else
    y = gate, y_up = up;
}

/// Stores the sums of a split, and begins those of the next one.
template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void end_split(const expert_stream_params& p, const expert_segment& segment,
                               std::uint32_t split, std::uint32_t first_strip,
                               const float (&multipliers)[stream_strips][2],
                               running_sums<Type, NumTiles>& sums) {
  const auto value = [&](std::uint32_t s, std::uint32_t j, std::uint32_t i, float scale) {
    return (sums.acc[s][j][i] * (1.0F / multipliers[s][i / 2])) * scale;
  };
  if (p.up.bytes != nullptr) {
    for_each_pair_sum<NumTiles>(p, segment, first_strip, [&](auto j, auto i, auto pair, auto n, float scale) {
      store_gated_pair(p, split, pair, n, value(0, j, i, scale), value(1, j, i, scale));
    });
  } else {
    PACELINE_UNROLL
    for (std::uint32_t s = 0; s < stream_strips; ++s)
      if (first_strip + s < p.weights.num_strips())
        for_each_pair_sum<NumTiles>(p, segment, first_strip + s,
                                    [&](auto j, auto i, auto pair, auto n, float scale) {
                                      store_pair_sum(p, split, pair, n, value(s, j, i, scale));
                                    });
  }
  PACELINE_UNROLL
  for (std::uint32_t i = 0; i < stream_strips * NumTiles * 4; ++i)
    sums.acc[i / (NumTiles * 4)][i / 4 % NumTiles][i % 4] = 0;
}

/// Multiplies the warp's strips, beginning with strip `first`, with the rows of all pairs of the segment.
/// `block` < num_blocks selects the splits.
template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void multiply_segment(const expert_stream_params& p, const expert_segment& segment,
                                      std::uint32_t first, std::uint32_t block) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  const bool is_gated = p.up.bytes != nullptr;
  const std::uint32_t num_strips = p.weights.num_strips();
  std::byte* const slots = shared_memory<std::byte>() + warp_index() * stream_strips * layout.slot_bytes();
  const std::uint32_t num_splits = p.num_splits / p.num_blocks; // either all splits or one
  const std::uint32_t begin = block * num_splits * p.tiles_of_split;
  const auto is_up = [&](std::uint32_t s) { return is_gated && s == 1; };
  const auto strip_at = [&](std::uint32_t s) {
    // The last strip may be computed twice.
    return is_gated || first + s >= num_strips ? first : first + s;
  };
  const auto stream_of = [&](std::uint32_t s) {
    const streamed_weights& from = is_up(s) ? p.up : p.weights;
    const matrix_strides& strides = is_up(s) ? p.up_strides : p.strides;
    return strip_stream<Type, false>(from.bytes + segment.expert * strides.bytes +
                                         strip_at(s) * from.strip_bytes,
                                     slots + s * layout.slot_bytes(), begin);
  };
  strip_stream<Type, false> strips[stream_strips] = {stream_of(0), stream_of(1)};
  float multipliers[stream_strips][2];
  PACELINE_UNROLL
  for (std::uint32_t s = 0; s < stream_strips; ++s) {
    const streamed_weights& from = is_up(s) ? p.up : p.weights;
    const matrix_strides& strides = is_up(s) ? p.up_strides : p.strides;
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i)
      multipliers[s][i] = Type == tensor_type::bf16
                              ? from.multipliers[segment.expert * strides.multipliers +
                                                 strip_at(s) * strip_rows + lane_index() / 4 + i * 8]
                              : 1.0F;
  }
  const std::uint32_t rest = p.num_tiles - begin;
  const std::uint32_t end =
      begin + (num_splits * p.tiles_of_split < rest ? num_splits * p.tiles_of_split : rest);
  gathered_rows<NumTiles> rows;
  running_sums<Type, NumTiles> sums;
  std::uint32_t split = block, split_end = begin + p.tiles_of_split;
  const auto use = [&](tile_place at) {
    sums.multiply(rows, strips, multipliers, at);
    if (at.tile + 1 != split_end && at.tile + 1 != end) return;
    end_split<Type, NumTiles>(p, segment, split++, first, multipliers, sums);
    split_end += p.tiles_of_split;
  };
  for_each_tile<Type>(
      strips, begin, end, [&] { find_rows(p, segment, rows); }, use);
}

template <tensor_type Type>
PACELINE_DEVICE void stream_experts(const expert_stream_params& p) {
  begin_in_turn();
  const expert_segment segment = segment_at(p.pairs, block_y() / p.num_blocks, expert_rows);
  const std::uint32_t strips_of_warp = p.up.bytes != nullptr ? 1 : stream_strips;
  const std::uint32_t first = (block_x() * stream_warps + warp_index()) * strips_of_warp;
  if (segment.count == 0 || first >= p.weights.num_strips()) return; // the whole warp returns
  const std::uint32_t block = block_y() % p.num_blocks;
  if (segment.count <= token_tile) return multiply_segment<Type, 1>(p, segment, first, block);
  multiply_segment<Type, expert_rows / token_tile>(p, segment, first, block);
}

PACELINE_KERNEL expert_q4_0(expert_stream_params p) { stream_experts<tensor_type::q4_0>(p); }
PACELINE_KERNEL expert_q4_1(expert_stream_params p) { stream_experts<tensor_type::q4_1>(p); }
PACELINE_KERNEL expert_q4_k(expert_stream_params p) { stream_experts<tensor_type::q4_k>(p); }
PACELINE_KERNEL expert_q5_0(expert_stream_params p) { stream_experts<tensor_type::q5_0>(p); }
PACELINE_KERNEL expert_q5_k(expert_stream_params p) { stream_experts<tensor_type::q5_k>(p); }
PACELINE_KERNEL expert_q6_k(expert_stream_params p) { stream_experts<tensor_type::q6_k>(p); }
PACELINE_KERNEL expert_q8_0(expert_stream_params p) { stream_experts<tensor_type::q8_0>(p); }
PACELINE_KERNEL expert_f8(expert_stream_params p) { stream_experts<tensor_type::f8_e4m3>(p); }
PACELINE_KERNEL expert_f16(expert_stream_params p) { stream_experts<tensor_type::f16>(p); }
PACELINE_KERNEL expert_bf16(expert_stream_params p) { stream_experts<tensor_type::bf16>(p); }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
