#pragma once

#include "gpu/kernels/stream_sums.cuh"
#include "gpu/kernels/streamed_format.cuh"
#include "gpu/kernels/strip_stream.cuh"

// Products that read each weight once for up to 64 rows of x (defined in gpu/kernels/sixteen_bit.hpp). A warp
// streams two strips of 16 rows of the matrix through its part of shared memory, several tiles ahead. It
// converts the weights to operands in registers and multiplies each operand with all tiles of 8 rows of x,
// which it reads from the cache of the multiprocessor. It does not synchronise with other warps. The same
// code, in the same order, is used for every number of tiles of x. For a gated product a warp has one strip
// of each of the two matrices. If there is only one split, the warp also applies the activation to the sums.
// Weights do not change while programs run, so their first tiles are loaded before the previous kernel has
// ended.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// A lane's part of one unit of all rows of x.
template <std::uint32_t NumTiles>
struct unit_of_rows {
  quad halves[NumTiles];
  float sums[NumTiles][2]; ///< for the two rows whose products the lane has
};

/// Reads the rows of x in unit `Unit` < 2 of a tile of weights.
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

/// Largest number of tiles of 8 rows for which `rows_ahead` is used; it takes registers for each.
inline constexpr std::uint32_t most_tiles_ahead = 2;
/// The rows of x for the next tile of weights, which are loaded while the current tile is multiplied.
template <std::uint32_t NumTiles, bool WithSums>
struct rows_ahead {
  arranged_rows x;
  unit_of_rows<NumTiles> units[2] = {};

  PACELINE_DEVICE void fetch(std::uint32_t tile) {
    read_rows<0, WithSums>(x, tile, units[0]);
    read_rows<1, WithSums>(x, tile, units[1]);
  }
};
template <std::uint32_t Unit, bool WithSums, std::uint32_t NumTiles, bool HeldSums>
PACELINE_DEVICE void read_rows(const rows_ahead<NumTiles, HeldSums>& rows, std::uint32_t /*tile*/,
                               unit_of_rows<NumTiles>& out) {
  static_assert(HeldSums || !WithSums);
  out = rows.units[Unit];
}

/// The two words of operand B with the sums of span `span` (8 units) for tile `j` (8 rows of x).
template <std::uint32_t NumTiles>
PACELINE_DEVICE const std::uint32_t* sums_of_span(const arranged_rows& x, std::uint32_t span,
                                                  std::uint32_t j) {
  const std::size_t at = (std::size_t{span} * NumTiles + j) * 32 + lane_index();
  return reinterpret_cast<const std::uint32_t*>(x.sum_halves + at * 8);
}

template <std::uint32_t NumTiles, bool HeldSums>
PACELINE_DEVICE const std::uint32_t* sums_of_span(const rows_ahead<NumTiles, HeldSums>& rows,
                                                  std::uint32_t span, std::uint32_t j) {
  return sums_of_span<NumTiles>(rows.x, span, j);
}

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

/// Multiplies a unit of F16 or BF16; `multipliers` are those of the lane's two rows.
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
PACELINE_DEVICE void multiply_tile(const auto& strip, tile_place at, const float (&multipliers)[2],
                                   const unit_of_rows<NumTiles> (&x)[2], strip_sums<NumTiles>& acc) {
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

  PACELINE_DEVICE scaled_tile(const auto& strip, tile_place at)
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

/// Called after the last tile of a span: multiplies the span's sums and the sums of its minima by its two
/// numbers, d and m, and adds them to `acc`.
template <tensor_type Type, std::uint32_t NumTiles, class Rows>
PACELINE_DEVICE void end_span(const auto& strip, tile_place place, const Rows& x,
                              strip_sums<NumTiles>& of_span, strip_sums<NumTiles>& acc) {
  const std::byte* const header = strip.header(place);
  std::uint32_t minima[4];
  float scale[2], min[2];
  PACELINE_UNROLL
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t row = lane_index() / 4 + i * 8;
    // Columns 2 t and 2 t + 1 of the operand are units 2 t and 2 t + 1, which form quarter t. Columns 2 t + 8
    // and 2 t + 9 are the same units, for the remainders of their sums, which are stored times 2^11. So the
    // minima of the first columns are multiplied by 2^11, too.
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

/// A warp's sums for its strips so far. `Rows` is arranged_rows or another type with overloads of read_rows
/// and sums_of_span.
template <tensor_type Type, std::uint32_t NumTiles>
struct running_sums {
  strip_sums<NumTiles> acc[stream_strips] = {};
  strip_sums<NumTiles> of_span[stream_strips] = {}; ///< for formats that scale codes

  template <class Rows, class Strip>
  PACELINE_DEVICE void multiply(const Rows& rows, const Strip (&strips)[stream_strips],
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

/// Calls `use` with the place of each of the tiles [begin, end) of a warp's strips. The next tiles are loaded
/// meanwhile. `begun` is called once the loads of the first tiles have begun.
template <tensor_type Type, class Strip, class Begun, class Use>
PACELINE_DEVICE void for_each_tile(Strip (&strips)[stream_strips], std::uint32_t begin, std::uint32_t end,
                                   const Begun& begun, const Use& use) {
  constexpr streamed_layout layout = streamed_layout_of(Type);
  const auto fetch = [&](tile_place at) {
    if (at.tile < end) {
      PACELINE_UNROLL
      for (std::uint32_t s = 0; s < stream_strips; ++s) strips[s].fetch(at);
    }
    end_copy_group();
  };
  // Unrolled, because a loop counter may be in a uniform register. If such a register is a part of the shared
  // address, ptxas 13.0 encodes a copy with a policy wrongly: an illegal instruction at run time
  // (docs/decisions/0661).
  PACELINE_UNROLL
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
  static_assert(stream_strips == 2); // for a gated product: one of the gate, one of `up`
  const bool is_gated = p.up.bytes != nullptr;
  const std::uint32_t first = (block.x * stream_warps + warp_index()) * (is_gated ? 1 : stream_strips);
  const std::uint32_t num_strips = p.weights.num_strips();
  if (first >= num_strips) return wait_for_rows(); // the whole warp returns
  std::byte* const slots = shared_memory<std::byte>() + warp_index() * stream_strips * layout.slot_bytes();
  const std::uint32_t begin = block.y * p.tiles_of_split;
  const std::uint32_t end = begin + p.tiles_of_split < p.num_tiles ? begin + p.tiles_of_split : p.num_tiles;
  const auto strip_at = [&](std::uint32_t s) {
    // The last strip may be computed twice.
    return is_gated || first + s >= num_strips ? first : first + s;
  };
  const auto stream_of = [&](std::uint32_t s) {
    const streamed_weights& from = is_gated && s == 1 ? p.up : p.weights;
    return strip_stream<Type, true>(from.bytes + strip_at(s) * from.strip_bytes,
                                    slots + s * layout.slot_bytes(), begin);
  };
  strip_stream<Type, true> strips[stream_strips] = {stream_of(0), stream_of(1)};
  float multipliers[stream_strips][2];
  PACELINE_UNROLL
  for (std::uint32_t s = 0; s < stream_strips; ++s) {
    const streamed_weights& from = is_gated && s == 1 ? p.up : p.weights;
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i)
      multipliers[s][i] = Type == tensor_type::bf16
                              ? from.multipliers[strip_at(s) * strip_rows + lane_index() / 4 + i * 8]
                              : 1.0F;
  }
  running_sums<Type, NumTiles> sums;
  if constexpr (NumTiles <= most_tiles_ahead) {
    rows_ahead<NumTiles, layout.has_mins && !layout.scales_codes()> rows{p.x};
    const auto begun = [&] {
      wait_for_rows();
      rows.fetch(begin);
    };
    for_each_tile<Type>(strips, begin, end, begun, [&](tile_place at) {
      const auto now = rows;
      rows.fetch(at.tile + 1 < end ? at.tile + 1 : at.tile);
      sums.multiply(now, strips, multipliers, at);
    });
  } else {
    for_each_tile<Type>(strips, begin, end, wait_for_rows,
                        [&](tile_place at) { sums.multiply(p.x, strips, multipliers, at); });
  }
  const sums_of_warp of_warp{reinterpret_cast<float*>(slots)};
  sync_warp(); // all lanes have read the last weights
  PACELINE_UNROLL
  for (std::uint32_t s = 0; s < stream_strips; ++s) of_warp.put<NumTiles>(s, multipliers[s], sums.acc[s]);
  sync_warp();
  if (is_gated)
    store_gated_sums(p, block.y, first, of_warp);
  else
    store_sums(p, block.y, first, of_warp);
}

// There are separate kernels for up to 8, 16, 32 and 64 rows. One kernel for all would need the registers of
// the largest in every launch, and fewer of its blocks could run at the same time.
template <tensor_type Type, std::uint32_t NumTiles>
PACELINE_DEVICE void stream_product(const streamed_params& p) {
  let_next_begin();
  multiply_strips<Type, NumTiles>(p, own_place(), [] { wait_for_previous(); });
}

PACELINE_KERNEL stream_q4_0(streamed_params p) { stream_product<tensor_type::q4_0, 1>(p); }
PACELINE_KERNEL stream_q4_1(streamed_params p) { stream_product<tensor_type::q4_1, 1>(p); }
PACELINE_KERNEL stream_q4_k(streamed_params p) { stream_product<tensor_type::q4_k, 1>(p); }
PACELINE_KERNEL stream_q5_0(streamed_params p) { stream_product<tensor_type::q5_0, 1>(p); }
PACELINE_KERNEL stream_q5_k(streamed_params p) { stream_product<tensor_type::q5_k, 1>(p); }
PACELINE_KERNEL stream_q6_k(streamed_params p) { stream_product<tensor_type::q6_k, 1>(p); }
PACELINE_KERNEL stream_q8_0(streamed_params p) { stream_product<tensor_type::q8_0, 1>(p); }
PACELINE_KERNEL stream_f8(streamed_params p) { stream_product<tensor_type::f8_e4m3, 1>(p); }
PACELINE_KERNEL stream_f16(streamed_params p) { stream_product<tensor_type::f16, 1>(p); }
PACELINE_KERNEL stream_bf16(streamed_params p) { stream_product<tensor_type::bf16, 1>(p); }
PACELINE_KERNEL stream16_q4_0(streamed_params p) { stream_product<tensor_type::q4_0, 2>(p); }
PACELINE_KERNEL stream16_q4_1(streamed_params p) { stream_product<tensor_type::q4_1, 2>(p); }
PACELINE_KERNEL stream16_q4_k(streamed_params p) { stream_product<tensor_type::q4_k, 2>(p); }
PACELINE_KERNEL stream16_q5_0(streamed_params p) { stream_product<tensor_type::q5_0, 2>(p); }
PACELINE_KERNEL stream16_q5_k(streamed_params p) { stream_product<tensor_type::q5_k, 2>(p); }
PACELINE_KERNEL stream16_q6_k(streamed_params p) { stream_product<tensor_type::q6_k, 2>(p); }
PACELINE_KERNEL stream16_q8_0(streamed_params p) { stream_product<tensor_type::q8_0, 2>(p); }
PACELINE_KERNEL stream16_f8(streamed_params p) { stream_product<tensor_type::f8_e4m3, 2>(p); }
PACELINE_KERNEL stream16_f16(streamed_params p) { stream_product<tensor_type::f16, 2>(p); }
PACELINE_KERNEL stream16_bf16(streamed_params p) { stream_product<tensor_type::bf16, 2>(p); }
PACELINE_KERNEL stream32_q4_0(streamed_params p) { stream_product<tensor_type::q4_0, 4>(p); }
PACELINE_KERNEL stream32_q4_1(streamed_params p) { stream_product<tensor_type::q4_1, 4>(p); }
PACELINE_KERNEL stream32_q4_k(streamed_params p) { stream_product<tensor_type::q4_k, 4>(p); }
PACELINE_KERNEL stream32_q5_0(streamed_params p) { stream_product<tensor_type::q5_0, 4>(p); }
PACELINE_KERNEL stream32_q5_k(streamed_params p) { stream_product<tensor_type::q5_k, 4>(p); }
PACELINE_KERNEL stream32_q6_k(streamed_params p) { stream_product<tensor_type::q6_k, 4>(p); }
PACELINE_KERNEL stream32_q8_0(streamed_params p) { stream_product<tensor_type::q8_0, 4>(p); }
PACELINE_KERNEL stream32_f8(streamed_params p) { stream_product<tensor_type::f8_e4m3, 4>(p); }
PACELINE_KERNEL stream32_f16(streamed_params p) { stream_product<tensor_type::f16, 4>(p); }
PACELINE_KERNEL stream32_bf16(streamed_params p) { stream_product<tensor_type::bf16, 4>(p); }
PACELINE_KERNEL stream64_q4_0(streamed_params p) { stream_product<tensor_type::q4_0, 8>(p); }
PACELINE_KERNEL stream64_q4_1(streamed_params p) { stream_product<tensor_type::q4_1, 8>(p); }
PACELINE_KERNEL stream64_q4_k(streamed_params p) { stream_product<tensor_type::q4_k, 8>(p); }
PACELINE_KERNEL stream64_q5_0(streamed_params p) { stream_product<tensor_type::q5_0, 8>(p); }
PACELINE_KERNEL stream64_q5_k(streamed_params p) { stream_product<tensor_type::q5_k, 8>(p); }
PACELINE_KERNEL stream64_q6_k(streamed_params p) { stream_product<tensor_type::q6_k, 8>(p); }
PACELINE_KERNEL stream64_q8_0(streamed_params p) { stream_product<tensor_type::q8_0, 8>(p); }
PACELINE_KERNEL stream64_f8(streamed_params p) { stream_product<tensor_type::f8_e4m3, 8>(p); }
PACELINE_KERNEL stream64_f16(streamed_params p) { stream_product<tensor_type::f16, 8>(p); }
PACELINE_KERNEL stream64_bf16(streamed_params p) { stream_product<tensor_type::bf16, 8>(p); }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
