#pragma once

#include "gpu/kernels/activation.cuh"
#include "gpu/kernels/streamed_format.cuh"
#include "gpu/kernels/strip_stream.cuh"

// Products that read each weight once for up to 64 rows of x (defined in gpu/kernels/sixteen_bit.hpp). A warp
// streams two strips of 16 rows of the matrix through its part of shared memory, several tiles ahead. It
// converts them to operands in registers and multiplies each with all tiles of 8 rows of x, which it reads
// from the cache of the multiprocessor. It does not synchronise with other warps. The same code, in the same
// order, is used for every number of tiles. For a gated product a warp has one strip of each of the two
// matrices, and applies the activation to their sums. Weights do not change while programs run, so their
// first tiles are loaded before the previous kernel has ended.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// One unit of x, all its rows, as held by a lane.
template <std::uint32_t NumTiles>
struct unit_of_rows {
  quad halves[NumTiles];
  float sums[NumTiles][2]; ///< for the two rows whose products the lane has
};

/// Unit `Unit` < 2 of a tile.
template <std::uint32_t Unit, bool WithSums, std::uint32_t NumTiles>
PACELINE_DEVICE void read_rows(const arranged_rows& x, std::uint32_t tile, unit_of_rows<NumTiles>& out) {
  constexpr std::uint32_t bytes = 512; // in a unit of 8 rows
  const std::byte* const halves = x.halves + lane_index() * 16 + std::size_t{tile} * (2 * NumTiles * bytes);
  const float* const sums = x.sums + lane_index() % 4 * 2 + std::size_t{tile} * (2 * NumTiles * token_tile);
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    out.halves[j] = read_quad(halves + (Unit * NumTiles + j) * bytes);
    if constexpr (WithSums)
      for (std::uint32_t i = 0; i < 2; ++i) out.sums[j][i] = sums[(Unit * NumTiles + j) * token_tile + i];
  }
}

/// The two words of operand B for the sums of span `span` of 8 units, of tile `j` of 8 rows.
template <std::uint32_t NumTiles>
PACELINE_DEVICE const std::uint32_t* sums_of_span(const arranged_rows& x, std::uint32_t span,
                                                  std::uint32_t j) {
  const std::size_t at = (std::size_t{span} * NumTiles + j) * 32 + lane_index();
  return reinterpret_cast<const std::uint32_t*>(x.sum_halves + at * 8);
}

/// A lane's sums of a strip's products: rows lane / 4 and lane / 4 + 8 of the strip (last index / 2) with
/// rows 8 j + 2 (lane % 4) and the next of x (last index % 2).
template <std::uint32_t NumTiles>
using strip_sums = float[NumTiles][4];

template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void multiply_codes(const unit_words& words, const unit_scales (&scales)[2],
                                    const unit_of_rows<NumTiles>& x, strip_sums<NumTiles>& acc) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  std::uint32_t a[2][4];
  PACELINE_UNROLL
  for (std::uint32_t i = 0; i < 8; ++i) a[i / 4][i % 4] = codes_as_halves<Type>(words, i / 4, i % 4);
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    float sum[4] = {};
    PACELINE_UNROLL
    for (std::uint32_t step = 0; step < 2; ++step) {
      multiply_add_tile(sum, a[step], x.halves[j].words[step * 2], x.halves[j].words[step * 2 + 1]);
      if (layout.group_cols == 32 && step == 0) continue;
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        acc[j][i] = std::fma(sum[i], scales[i / 2].scale[layout.group_cols == 32 ? 0 : step], acc[j][i]);
        if (layout.has_mins) acc[j][i] = std::fma(scales[i / 2].min, x.sums[j][i % 2], acc[j][i]);
        sum[i] = 0;
      }
    }
  }
}

/// A unit of F16 or BF16; `multipliers` are those of the lane's two rows.
template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void multiply_values(const std::byte* codes, std::uint32_t unit,
                                     const float (&multipliers)[2], const unit_of_rows<NumTiles>& x,
                                     strip_sums<NumTiles>& acc) {
  PACELINE_UNROLL
  for (std::uint32_t step = 0; step < 2; ++step) {
    const quad values = read_quad(codes + (unit * 2 + step) * 512 + lane_index() * 16);
    std::uint32_t a[4];
    PACELINE_UNROLL
    for (std::uint32_t pair = 0; pair < 4; ++pair) {
      const std::uint32_t both = values.words[pair];
      if constexpr (Type == tensor_type::bf16)
        a[pair] = halves_of(std::bit_cast<float>(both << 16) * multipliers[pair % 2],
                            std::bit_cast<float>(both & 0xffff0000U) * multipliers[pair % 2]);
      else
        a[pair] = both;
    }
    PACELINE_UNROLL
    for (std::uint32_t j = 0; j < NumTiles; ++j)
      multiply_add_tile(acc[j], a, x.halves[j].words[step * 2], x.halves[j].words[step * 2 + 1]);
  }
}

template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void multiply_tile(const strip_stream<Type>& strip, tile_place at,
                                   const float (&multipliers)[2], const unit_of_rows<NumTiles> (&x)[2],
                                   strip_sums<NumTiles>& acc) {
  const std::byte* const codes = strip.codes(at);
  if constexpr (streamed_layout_of(Type).code_bits == 16) {
    PACELINE_UNROLL
    for (std::uint32_t u = 0; u < 2; ++u) multiply_values<Type, NumTiles>(codes, u, multipliers, x[u], acc);
  } else {
    quad low{};
    if constexpr (streamed_layout_of(Type).code_bits != 8) low = read_quad(codes + lane_index() * 16);
    const std::uint32_t row = lane_index() / 4, quarter = at.tile % 4;
    PACELINE_UNROLL
    for (std::uint32_t u = 0; u < 2; ++u) {
      const unit_scales scales[2] = {read_scales<Type>(strip.header(at), row, quarter, u),
                                     read_scales<Type>(strip.header(at), row + 8, quarter, u)};
      multiply_codes<Type, NumTiles>(read_unit<Type>(codes, u, low), scales, x[u], acc);
    }
  }
}

/// A tile of a format that scales codes: the sums of its span are accumulated on the tensor core.
template <tensor_type Type, std::uint32_t NumTiles>
struct scaled_tile {
  const std::byte* codes;
  quad low;
  std::uint32_t scales[2]; ///< for the lane's two rows, both units

  PACELINE_DEVICE scaled_tile(const strip_stream<Type>& strip, tile_place at)
      : codes(strip.codes(at)), low(read_quad(codes + lane_index() * 16)) {
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i)
      scales[i] = scales_of(read_fields(strip.header(at), lane_index() / 4 + i * 8, at.tile % 4));
  }

  template <std::uint32_t Unit>
  PACELINE_DEVICE void multiply(const unit_of_rows<NumTiles>& x, strip_sums<NumTiles>& of_span) const {
    const unit_words words = read_unit<Type>(codes, Unit, low);
    const std::uint32_t of_rows[2] = {both_halves<Unit>(scales[0]), both_halves<Unit>(scales[1])};
    multiply_step<0>(words, of_rows, x, of_span);
    multiply_step<1>(words, of_rows, x, of_span);
  }

 private:
  template <std::uint32_t Step>
  PACELINE_DEVICE static void multiply_step(const unit_words& words, const std::uint32_t (&scales_of_rows)[2],
                                            const unit_of_rows<NumTiles>& x, strip_sums<NumTiles>& of_span) {
    const std::uint32_t a[4] = {multiply_halves(small_codes<Type, Step, 0>(words), scales_of_rows[0]),
                                multiply_halves(small_codes<Type, Step, 1>(words), scales_of_rows[1]),
                                multiply_halves(small_codes<Type, Step, 2>(words), scales_of_rows[0]),
                                multiply_halves(small_codes<Type, Step, 3>(words), scales_of_rows[1])};
    PACELINE_UNROLL
    for (std::uint32_t j = 0; j < NumTiles; ++j)
      multiply_add_tile(of_span[j], a, x.halves[j].words[Step * 2], x.halves[j].words[Step * 2 + 1]);
  }
};

/// Ends a span, whose last tile this is: multiplies its sums and the sums of its minima by the span's two
/// numbers.
template <tensor_type Type, std::uint32_t NumTiles, class Rows>
PACELINE_DEVICE void end_span(const strip_stream<Type>& strip, tile_place place, const Rows& x,
                              strip_sums<NumTiles>& of_span, strip_sums<NumTiles>& acc) {
  const std::byte* const header = strip.header(place);
  std::uint32_t minima[4];
  float scale[2], min[2];
  PACELINE_UNROLL
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t row = lane_index() / 4 + i * 8;
    // Columns 2 t and 2 t + 1 are units 2 t and 2 t + 1, which form quarter t. Columns 2 t + 8 and 2 t + 9
    // are the same units, with sums 2^11 times as large.
    minima[i + 2] = minima_of(read_fields(header, row, lane_index() % 4));
    minima[i] = multiply_halves(minima[i + 2], 0x68006800U);
    const std::uint32_t both = *reinterpret_cast<const std::uint32_t*>(header + row * 4);
    scale[i] = float_of_half(both) * multiplier_of_small_codes(i);
    min[i] = float_of_half(both >> 16) * (0x1p13F / sum_multiplier);
  }
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    const std::uint32_t* const sums = sums_of_span<NumTiles>(x, place.tile / 4, j);
    float of_minima[4] = {};
    multiply_add_tile(of_minima, minima, sums[0], sums[1]);
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      acc[j][i] = std::fma(of_span[j][i], scale[i / 2], acc[j][i]);
      acc[j][i] = std::fma(of_minima[i], min[i / 2], acc[j][i]);
      of_span[j][i] = 0;
    }
  }
}

/// A warp's sums over all its strips so far. `Rows` are arranged_rows, or others with overloads of read_rows
/// and sums_of_span.
template <tensor_type Type, std::uint32_t NumTiles>
struct running_sums {
  strip_sums<NumTiles> acc[stream_strips] = {};
  strip_sums<NumTiles> of_span[stream_strips] = {}; ///< for formats that scale codes

  template <class Rows>
  PACELINE_DEVICE void multiply(const Rows& rows, const strip_stream<Type> (&strips)[stream_strips],
                                const float (&multipliers)[stream_strips][2], tile_place at) {
    if constexpr (streamed_layout_of(Type).scales_codes()) {
      const scaled_tile<Type, NumTiles> tiles[stream_strips] = {{strips[0], at}, {strips[1], at}};
      multiply_unit<0>(rows, tiles, at.tile);
      multiply_unit<1>(rows, tiles, at.tile);
      if (at.tile % 4 != 3) return;
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < stream_strips; ++s)
        end_span<Type, NumTiles>(strips[s], at, rows, of_span[s], acc[s]);
    } else {
      unit_of_rows<NumTiles> x[2];
      constexpr bool with_sums = streamed_layout_of(Type).has_mins;
      read_rows<0, with_sums>(rows, at.tile, x[0]);
      read_rows<1, with_sums>(rows, at.tile, x[1]);
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < stream_strips; ++s)
        multiply_tile<Type, NumTiles>(strips[s], at, multipliers[s], x, acc[s]);
    }
  }

 private:
  template <std::uint32_t Unit, class Rows>
  PACELINE_DEVICE void multiply_unit(const Rows& rows,
                                     const scaled_tile<Type, NumTiles> (&tiles)[stream_strips],
                                     std::uint32_t tile) {
    unit_of_rows<NumTiles> x;
    read_rows<Unit, false>(rows, tile, x);
    PACELINE_UNROLL
    for (std::uint32_t s = 0; s < stream_strips; ++s) tiles[s].template multiply<Unit>(x, of_span[s]);
  }
};

/// Index of a split's sum among those of one matrix.
PACELINE_DEVICE std::size_t partial_place(const streamed_params& p, std::uint32_t split, std::uint32_t row,
                                          std::uint32_t n) {
  return (std::size_t{split} * p.num_rows + row) * p.weights.num_rows + n;
}

PACELINE_DEVICE void store_sum(const streamed_params& p, std::uint32_t split, std::uint32_t row,
                               std::uint32_t n, float sum) {
  if (p.partial != nullptr) {
    p.partial[partial_place(p, split, row, n)] = sum;
    return;
  }
  float* const y = p.y + row * p.y_stride + n;
  if (p.bias != nullptr) sum = sum + p.bias[n];
  *y = p.add ? *y + sum : sum;
}

/// Calls `store` with the index of each requested sum of the lane, its row of x and its output.
template <std::uint32_t NumTiles, class Store>
PACELINE_DEVICE void for_each_sum(const streamed_params& p, std::uint32_t strip, const Store& store) {
  PACELINE_UNROLL
  for (std::uint32_t j = 0; j < NumTiles; ++j) {
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t n = strip * strip_rows + lane_index() / 4 + i / 2 * 8;
      const std::uint32_t row = j * token_tile + lane_index() % 4 * 2 + i % 2;
      if (n < p.weights.num_rows && row < p.num_rows) store(j, i, row, n);
    }
  }
}

template <std::uint32_t NumTiles>
PACELINE_DEVICE void store_sums(const streamed_params& p, std::uint32_t split, std::uint32_t strip,
                                const float (&multipliers)[2], const strip_sums<NumTiles>& acc) {
  for_each_sum<NumTiles>(p, strip, [&](std::uint32_t j, std::uint32_t i, std::uint32_t row, std::uint32_t n) {
    store_sum(p, split, row, n, (acc[j][i] * (1.0F / multipliers[i / 2])) * p.x.scales[row]);
  });
}

/// Stores the products of the gate and of the other matrix with the same rows.
PACELINE_DEVICE void store_gated(const streamed_params& p, std::uint32_t split, std::uint32_t row,
                                 std::uint32_t n, float gate, float up) {
  if (p.partial != nullptr) {
    p.partial[partial_place(p, split, row, n)] = gate;
    p.partial[std::size_t{p.num_splits} * p.num_rows * p.weights.num_rows + partial_place(p, split, row, n)] =
        up;
    return;
  }
  p.y[row * p.y_stride + n] = activate(p.act, gate) * up;
}

template <std::uint32_t NumTiles>
PACELINE_DEVICE void store_gated_sums(const streamed_params& p, std::uint32_t split, std::uint32_t strip,
                                      const float (&multipliers)[2][2],
                                      const strip_sums<NumTiles> (&acc)[2]) {
  for_each_sum<NumTiles>(p, strip, [&](std::uint32_t j, std::uint32_t i, std::uint32_t row, std::uint32_t n) {
    const float scale = p.x.scales[row];
    store_gated(p, split, row, n, (acc[0][j][i] * (1.0F / multipliers[0][i / 2])) * scale,
                (acc[1][j][i] * (1.0F / multipliers[1][i / 2])) * scale);
  });
}

/// Calls `use` with the place of each of the tiles [begin, end) of a warp's strips. The next tiles are loaded
/// meanwhile. `begun` is called once the loads of the first tiles have begun.
template <tensor_type Type, class Begun, class Use>
PACELINE_DEVICE void for_each_tile(strip_stream<Type> (&strips)[stream_strips], std::uint32_t begin,
                                   std::uint32_t end, const Begun& begun, const Use& use) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  const auto fetch = [&](tile_place at) {
    if (at.tile < end) {
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < stream_strips; ++s) strips[s].fetch(at);
    }
    end_copy_group();
  };
  for (std::uint32_t i = 0; i + 1 < layout.stages; ++i) fetch({begin + i, i});
  begun();
  std::uint32_t free = layout.stages - 1; // the slot of the previous tile, which is used next
  for (tile_place at{begin, 0}; at.tile < end; ++at.tile) {
    wait_for_copies<layout.stages - 2>();
    sync_warp(); // all parts of the tile have arrived, and nobody reads the free slot any more
    fetch({at.tile + layout.stages - 1, free});
    sync_warp(); // reconverge: the lanes copied different amounts
    use(at);
    free = at.slot;
    at.slot = at.slot + 1 == layout.stages ? 0 : at.slot + 1;
  }
}

/// `wait_for_rows` is called by every thread of the block once the first weights are being loaded. It returns
/// when rows of x are available and results may be written.
template <tensor_type Type, std::uint32_t NumTiles, class Wait>
PACELINE_DEVICE void multiply_strips(const streamed_params& p, grid_place block, const Wait& wait_for_rows) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  static_assert(stream_strips == 2); // those of a gated product
  const bool is_gated = p.up.bytes != nullptr;
  const std::uint32_t first = (block.x * stream_warps + warp_index()) * (is_gated ? 1 : stream_strips);
  const std::uint32_t num_strips = p.weights.num_strips();
  if (first >= num_strips) return wait_for_rows(); // the whole warp returns
  std::byte* const slots = shared_memory<std::byte>() + warp_index() * stream_strips * layout.slot_bytes();
  strip_stream<Type> strips[stream_strips];
  float multipliers[stream_strips][2];
  PACELINE_UNROLL
  for (std::uint32_t s = 0; s < stream_strips; ++s) {
    const streamed_weights& from = is_gated && s == 1 ? p.up : p.weights;
    // The last strip may be computed twice.
    const std::uint32_t strip = is_gated || first + s >= num_strips ? first : first + s;
    strips[s] = {from.bytes + strip * from.strip_bytes, slots + s * layout.slot_bytes()};
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i)
      multipliers[s][i] =
          Type == tensor_type::bf16 ? from.multipliers[strip * strip_rows + lane_index() / 4 + i * 8] : 1.0F;
  }
  const std::uint32_t begin = block.y * p.tiles_of_split;
  const std::uint32_t end = begin + p.tiles_of_split < p.num_tiles ? begin + p.tiles_of_split : p.num_tiles;
  running_sums<Type, NumTiles> sums;
  for_each_tile<Type>(strips, begin, end, wait_for_rows,
                      [&](tile_place at) { sums.multiply(p.x, strips, multipliers, at); });
  if (is_gated) return store_gated_sums<NumTiles>(p, block.y, first, multipliers, sums.acc);
  PACELINE_UNROLL
  for (std::uint32_t s = 0; s < stream_strips; ++s)
    if (first + s < num_strips) store_sums<NumTiles>(p, block.y, first + s, multipliers[s], sums.acc[s]);
}

template <tensor_type Type>
PACELINE_DEVICE void stream_product(const streamed_params& p) {
  let_next_begin();
  const auto wait = [] { wait_for_previous(); };
  switch (p.x.num_tiles) {
  case 1:
    return multiply_strips<Type, 1>(p, own_place(), wait);
  case 2:
    return multiply_strips<Type, 2>(p, own_place(), wait);
  case 4:
    return multiply_strips<Type, 4>(p, own_place(), wait);
  default:
    return multiply_strips<Type, 8>(p, own_place(), wait);
  }
}

PACELINE_KERNEL stream_q4_0(streamed_params p) { stream_product<tensor_type::q4_0>(p); }
PACELINE_KERNEL stream_q4_1(streamed_params p) { stream_product<tensor_type::q4_1>(p); }
PACELINE_KERNEL stream_q4_k(streamed_params p) { stream_product<tensor_type::q4_k>(p); }
PACELINE_KERNEL stream_q5_0(streamed_params p) { stream_product<tensor_type::q5_0>(p); }
PACELINE_KERNEL stream_q5_k(streamed_params p) { stream_product<tensor_type::q5_k>(p); }
PACELINE_KERNEL stream_q6_k(streamed_params p) { stream_product<tensor_type::q6_k>(p); }
PACELINE_KERNEL stream_q8_0(streamed_params p) { stream_product<tensor_type::q8_0>(p); }
PACELINE_KERNEL stream_f8(streamed_params p) { stream_product<tensor_type::f8_e4m3>(p); }
PACELINE_KERNEL stream_f16(streamed_params p) { stream_product<tensor_type::f16>(p); }
PACELINE_KERNEL stream_bf16(streamed_params p) { stream_product<tensor_type::bf16>(p); }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
