#pragma once

#include "gpu/kernels/intrinsics.cuh"
#include "gpu/kernels/kv_cell.cuh"
#include "gpu/kernels/reduce_warp.cuh"
#include "gpu/kernels/split_attention_params.hpp"
#include "runtime/device/scalar_math.hpp"

#include <bit>
#include <cmath>
#include <limits>

// Attention that reads keys and values once for all query heads of a key-value head and for several rows of a
// sequence (defined in gpu/kernels/split_attention_params.hpp). The *columns* of a block are the cells of its
// split that its rows see. First come the cells that rows share, whose slots equal their positions, then the
// cells on the rows' paths through a draft tree. One thread for each column computes scores, one warp for
// each query the probabilities, and one thread for each dimension the weighted values. Each score, and each
// sum of weighted values, is computed by one thread, in order.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

template <kv_type Type>
PACELINE_DEVICE float cell_value(const void* values, std::size_t index) {
  if constexpr (Type == kv_type::f16)
    return float_of_half(static_cast<const std::uint16_t*>(values)[index]);
  else
    return stored_value(values, Type, index);
}

template <kv_type Type>
inline constexpr std::uint32_t value_bytes = Type == kv_type::f32  ? 4
                                             : Type == kv_type::q8 ? 1
                                                                   : 2;

PACELINE_DEVICE quad read_four(const void* at) { return read_quad(static_cast<const std::byte*>(at)); }

/// First position that a row sees.
PACELINE_DEVICE std::uint32_t first_seen(const device::batch_entry& row, std::uint32_t window) {
  const std::uint32_t end = row.position.value + 1;
  return window == 0 || end <= window ? 0 : end - window;
}

/// The work of a block of attention.
struct tile_work {
  const attend_params& p;
  row_tile tile;
  std::uint32_t split; ///< counted from the launch's first split
  std::uint32_t kv_head;
  std::uint32_t first_head; ///< of the queries
  std::uint32_t num_heads;
  tile_memory& shared;
  float* queries; ///< in shared memory
  float* scores;  ///< in shared memory; later the factors of the values

  PACELINE_DEVICE std::uint32_t begin() const { return (p.range.first_split + split) * kv_split; }
  PACELINE_DEVICE std::uint32_t num_queries() const { return tile.num_rows * num_heads; }
  PACELINE_DEVICE std::uint32_t queries_of_row(std::uint32_t r) const {
    return (num_heads == 32 ? ~0U : (1U << num_heads) - 1) << r * num_heads;
  }
  /// Index of the results of query `q`.
  PACELINE_DEVICE std::size_t result(std::uint32_t q) const {
    const std::size_t row = tile.first_row - p.range.first_row + q / num_heads;
    return (std::size_t{split} * p.range.num_rows + row) * p.num_heads + first_head + q % num_heads;
  }
};

/// The positions that row `r` of the tile sees, without `path_column`.
PACELINE_DEVICE seen_positions look_at(const tile_work& work, std::uint32_t r) {
  const device::batch_entry row = work.p.batch.rows[work.tile.first_row + r];
  const std::uint32_t begin = work.begin(), end = row.position.value + 1;
  const auto in_split = [&](std::uint32_t position) {
    const std::uint32_t from_begin = position < begin ? 0 : position - begin;
    return from_begin < kv_split ? from_begin : kv_split;
  };
  seen_positions seen{in_split(first_seen(row, work.p.window)), in_split(end - row.path_length),
                      in_split(end), 0, 0};
  if (seen.linear < seen.first) seen.linear = seen.first;
  seen.path_at = row.path_begin + (begin + seen.linear - (end - row.path_length));
  return seen;
}

/// Finds the positions that the rows see and the number of columns, for all threads of the block.
PACELINE_DEVICE void list_rows(const tile_work& work) {
  tile_memory& shared = work.shared;
  if (thread_index() < work.tile.num_rows) shared.rows[thread_index()] = look_at(work, thread_index());
  sync_block();
  if (thread_index() == 0) {
    std::uint32_t num_columns = 0;
    for (std::uint32_t r = 0; r < work.tile.num_rows; ++r) {
      const seen_positions& row = shared.rows[r];
      if (row.first < row.linear && row.linear > num_columns) num_columns = row.linear;
    }
    shared.num_linear = num_columns;
    for (std::uint32_t r = 0; r < work.tile.num_rows; ++r) {
      seen_positions& row = shared.rows[r];
      row.path_column = num_columns;
      if (row.linear < row.end) num_columns += row.end - row.linear;
    }
    shared.num_columns = (num_columns + kv_batch - 1) / kv_batch * kv_batch;
  }
  sync_block();
}

/// Writes the cell of column `c` and the queries that see it to shared memory, and returns the cell.
PACELINE_DEVICE cell_place list_column(const tile_work& work, std::uint32_t c, std::uint32_t& mask) {
  const tile_memory& shared = work.shared;
  kv_slot slot{0};
  mask = 0;
  if (c < shared.num_linear) slot = kv_slot{work.begin() + c};
  for (std::uint32_t r = 0; r < work.tile.num_rows; ++r) {
    const seen_positions& row = shared.rows[r];
    if (c < shared.num_linear) {
      if (row.first <= c && c < row.linear) mask |= work.queries_of_row(r);
    } else if (row.linear < row.end && row.path_column <= c && c < row.path_column + row.end - row.linear) {
      mask = work.queries_of_row(r);
      slot = work.p.batch.paths[row.path_at + (c - row.path_column)];
    }
  }
  cell_place at{block_id{0}, 0};
  if (mask != 0)
    at = place_of(work.p.batch, work.p.batch.rows[work.tile.first_row].sequence, slot,
                  work.p.layer.block_size);
  work.shared.masks[c] = mask;
  work.shared.cells[c] = work.p.layer.scale_index(at.block, work.kv_head, at.cell);
  return at;
}

/// Copies the queries to shared memory, and fills the rest of `room` queries with zeros.
PACELINE_DEVICE void bring_queries(const tile_work& work, std::uint32_t room) {
  const std::uint32_t head_dim = work.p.layer.head_dim, padded = padded_head_dim(head_dim);
  for (std::uint32_t q = warp_index(); q < room; q += split_threads / warp_size) {
    const bool is_there = q < work.num_queries();
    const std::size_t row = work.tile.first_row + (is_there ? q / work.num_heads : 0);
    const std::size_t head = work.first_head + (is_there ? q % work.num_heads : 0);
    const float* const from = work.p.queries + row * work.p.query_stride + head * head_dim;
    for (std::uint32_t d = lane_index(); d < padded; d += warp_size)
      work.queries[q * padded + d] = is_there && d < head_dim ? from[d] : 0.0F;
  }
}

/// Scores of column `c`, which is at `at`.
template <kv_type Type, std::uint32_t Queries>
PACELINE_DEVICE void score_column(const tile_work& work, std::uint32_t c, const cell_place& at) {
  const device::kv_layer& layer = work.p.layer;
  const std::uint32_t padded = padded_head_dim(layer.head_dim);
  const std::size_t first = layer.key_index(at.block, work.kv_head, at.cell, 0);
  const auto* key = static_cast<const std::byte*>(layer.keys) + first * value_bytes<Type>;
  const std::uint32_t step = layer.block_size * value_bytes<Type>;
  const auto load = [&](std::uint32_t begin, float(&keys)[kv_batch]) {
    if (begin + kv_batch <= layer.head_dim) {
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; ++i, key += step) keys[i] = cell_value<Type>(key, 0);
    } else {
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; ++i, key += step)
        keys[i] = begin + i < layer.head_dim ? cell_value<Type>(key, 0) : 0.0F;
    }
  };
  float dots[Queries] = {};
  float next[kv_batch];
  load(0, next);
  PACELINE_ROLL
  for (std::uint32_t begin = 0; begin < padded; begin += kv_batch) {
    float keys[kv_batch];
    PACELINE_UNROLL
    for (std::uint32_t i = 0; i < kv_batch; ++i) keys[i] = next[i];
    if (begin + kv_batch < padded) load(begin + kv_batch, next);
    PACELINE_UNROLL
    for (std::uint32_t q = 0; q < Queries; ++q) {
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; i += 4) {
        const quad query = read_four(work.queries + q * padded + begin + i);
        PACELINE_UNROLL
        for (std::uint32_t k = 0; k < 4; ++k)
          dots[q] = std::fma(std::bit_cast<float>(query.words[k]), keys[i + k], dots[q]);
      }
    }
  }
  const float key_scale = Type == kv_type::q8 ? layer.key_scales[work.shared.cells[c]] : 1.0F;
  PACELINE_UNROLL
  for (std::uint32_t q = 0; q < Queries; ++q) {
    float score = dots[q];
    if (Type == kv_type::q8) score = score * key_scale;
    work.scores[q * tile_columns + c] = score * work.p.scale;
  }
  if (work.p.soft_cap == 0) return;
  PACELINE_ROLL
  for (std::uint32_t q = 0; q < Queries; ++q) {
    float& score = work.scores[q * tile_columns + c];
    score = work.p.soft_cap * device::tanh_reference(score * (1.0F / work.p.soft_cap));
  }
}

/// Turns the scores of query `q` into the factors of the values; done by a warp.
template <kv_type Type>
PACELINE_DEVICE void weigh_query(const tile_work& work, std::uint32_t q) {
  const seen_positions& row = work.shared.rows[q / work.num_heads];
  if (row.first >= row.end) return;
  float* const scores = work.scores + q * tile_columns;
  const auto column = [&](std::uint32_t j) {
    return j < row.linear ? j : row.path_column + (j - row.linear);
  };
  float max = -std::numeric_limits<float>::infinity();
  for (std::uint32_t j = lane_index(); j < row.end; j += warp_size)
    if (j >= row.first) max = std::fmax(max, scores[column(j)]);
  max = largest_of_warp(max);
  float sum = 0;
  PACELINE_ROLL
  for (std::uint32_t j = lane_index(); j < row.end; j += warp_size) {
    if (j < row.first) continue;
    const std::uint32_t c = column(j);
    const float probability = device::exp_reference(scores[c] - max);
    sum = sum + probability;
    scores[c] =
        Type == kv_type::q8 ? probability * work.p.layer.value_scales[work.shared.cells[c]] : probability;
  }
  sum = add_lanes<warp_size>(sum);
  if (lane_index() != 0) return;
  work.p.out.maxima[work.result(q)] = max;
  work.p.out.sums[work.result(q)] = sum;
}

/// Adds four columns of values to the sums of the queries that see them.
template <bool SeenByAll, std::uint32_t Queries>
PACELINE_DEVICE void add_columns(const tile_work& work, std::uint32_t c, const quad& masks,
                                 const float* values, float (&acc)[Queries]) {
  PACELINE_UNROLL
  for (std::uint32_t q = 0; q < Queries; ++q) {
    const quad weights = read_four(work.scores + q * tile_columns + c);
    PACELINE_UNROLL
    for (std::uint32_t k = 0; k < 4; ++k)
      if (SeenByAll || (masks.words[k] >> q & 1) != 0) // a value that the query does not see may be anything
        acc[q] = std::fma(std::bit_cast<float>(weights.words[k]), values[k], acc[q]);
  }
}

template <kv_type Type, std::uint32_t Queries>
PACELINE_DEVICE void add_split_values(const tile_work& work) {
  const device::kv_layer& layer = work.p.layer;
  const std::uint32_t all = work.num_queries() == 32 ? ~0U : (1U << work.num_queries()) - 1;
  PACELINE_ROLL
  for (std::uint32_t d = thread_index(); d < layer.head_dim; d += split_threads) {
    const std::uint32_t cell_bytes = layer.head_dim * value_bytes<Type>;
    const auto* const of_dimension = static_cast<const std::byte*>(layer.values) + d * value_bytes<Type>;
    const auto load = [&](std::uint32_t c, float(&values)[kv_batch]) {
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; ++i)
        values[i] = cell_value<Type>(of_dimension + work.shared.cells[c + i] * cell_bytes, 0);
    };
    float acc[Queries] = {};
    float next[kv_batch];
    load(0, next);
    PACELINE_ROLL
    for (std::uint32_t c = 0; c < work.shared.num_columns; c += kv_batch) {
      float values[kv_batch];
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; ++i) values[i] = next[i];
      if (c + kv_batch < work.shared.num_columns) load(c + kv_batch, next);
      PACELINE_UNROLL
      for (std::uint32_t i = 0; i < kv_batch; i += 4) {
        const quad masks = read_four(work.shared.masks + c + i);
        if ((masks.words[0] & masks.words[1] & masks.words[2] & masks.words[3]) == all)
          add_columns<true>(work, c + i, masks, values + i, acc);
        else
          add_columns<false>(work, c + i, masks, values + i, acc);
      }
    }
    PACELINE_UNROLL
    for (std::uint32_t q = 0; q < Queries; ++q) {
      if (q >= work.num_queries()) continue;
      const seen_positions& row = work.shared.rows[q / work.num_heads];
      if (row.first < row.end) work.p.out.values[work.result(q) * layer.head_dim + d] = acc[q];
    }
  }
}

template <kv_type Type, std::uint32_t Queries>
PACELINE_DEVICE void attend_tile(const attend_params& p, grid_place block) {
  const std::uint32_t heads_of_kv = p.num_heads / p.layer.num_heads;
  const std::uint32_t parts = (heads_of_kv + p.heads_of_tile - 1) / p.heads_of_tile;
  const std::uint32_t part = block.x % parts, kv_head = block.x / parts % p.layer.num_heads;
  const std::uint32_t rest = heads_of_kv - part * p.heads_of_tile;
  tile_memory& shared = *shared_memory<tile_memory>();
  auto* const queries = reinterpret_cast<float*>(&shared + 1);
  const tile_work work{p,
                       p.tiles[block.y],
                       block.x / parts / p.layer.num_heads,
                       kv_head,
                       kv_head * heads_of_kv + part * p.heads_of_tile,
                       rest < p.heads_of_tile ? rest : p.heads_of_tile,
                       shared,
                       queries,
                       queries + Queries * padded_head_dim(p.layer.head_dim)};
  list_rows(work);
  if (shared.num_columns == 0) return; // the whole block returns
  bring_queries(work, Queries);
  sync_block();
  for (std::uint32_t c = thread_index(); c < shared.num_columns; c += split_threads) {
    std::uint32_t mask = 0;
    const cell_place at = list_column(work, c, mask);
    if (mask != 0) score_column<Type, Queries>(work, c, at);
  }
  sync_block();
  for (std::uint32_t q = warp_index(); q < work.num_queries(); q += split_threads / warp_size)
    weigh_query<Type>(work, q);
  sync_block();
  add_split_values<Type, Queries>(work);
}

template <kv_type Type>
PACELINE_DEVICE void attend(const attend_params& p) {
  begin_in_turn();
  switch (p.queries_of_tile) {
  case 4:
    return attend_tile<Type, 4>(p, own_place());
  case 8:
    return attend_tile<Type, 8>(p, own_place());
  case 16:
    return attend_tile<Type, 16>(p, own_place());
  default:
    return attend_tile<Type, 32>(p, own_place());
  }
}

PACELINE_KERNEL attend_f32(attend_params p) { attend<kv_type::f32>(p); }
PACELINE_KERNEL attend_f16(attend_params p) { attend<kv_type::f16>(p); }
PACELINE_KERNEL attend_bf16(attend_params p) { attend<kv_type::bf16>(p); }
PACELINE_KERNEL attend_q8(attend_params p) { attend<kv_type::q8>(p); }

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
