#pragma once

// The definition, with shapes and the order of operations, is device::attention_args
// (runtime/device/op_attention.hpp). Scores are computed in vectors of 16 positions. Weighted sums of values
// are computed in vectors of 16 dimensions. V is simd_avx2 or simd_avx512. A split is a run of 128 positions
// (device::attention_split) with its own maximum, sum and weighted values. Splits are merged by rescaling.
//
// A unit is up to attention_unit_queries queries of one sequence and key-value head, processed together so
// that a key or value is loaded and converted to float32 once for several queries. The division into units
// changes no result: each score is its own sequence of fused multiply-adds over the head dimension, and each
// value sum of a split is its own sequence over the positions.
#include "runtime/cpu/kernels/attention_tiles.hpp"
#include "runtime/cpu/kernels/kv_element.hpp"
#include "runtime/cpu/kernels/math.hpp"

namespace paceline::cpu {
namespace {

/// Computes one unit. T is the stored element type. `args` and `unit` must outlive the object. Its arrays
/// have fixed maximum sizes.
template <class V, class T>
class unit_attention {
 public:
  unit_attention(const device::attention_args& args, const attention_unit& unit)
      : args_(args), layer_(args.layer), unit_(unit), num_heads_(unit.head_end - unit.head_begin),
        num_rows_(unit.rows.end - unit.rows.begin), num_queries_(num_heads_ * num_rows_),
        whole_dim_((args.layer.head_dim + V::lanes - 1) / V::lanes * V::lanes),
        kv_head_(unit.head_begin / (args.num_heads / args.layer.num_heads)),
        blocks_(args.batch->sequences[entry(0).sequence].blocks.data()) {}

  /// Computes and merges all splits that the rows see.
  void run() {
    pack_queries();
    std::uint32_t begin = first_position(0);
    std::uint32_t end = end_position(0);
    for (std::uint32_t r = 1; r < num_rows_; ++r) {
      begin = lower(begin, first_position(r));
      end = higher(end, end_position(r));
    }
    for (std::uint32_t split = begin / split_positions * split_positions; split < end;
         split += split_positions) {
      compute(split);
      for (std::uint32_t q = 0; q < num_queries_; ++q)
        if (is_seen(q)) total_[q].add(part_max_[q], part_sum_[q], part_[q], whole_dim_);
    }
    for (std::uint32_t q = 0; q < num_queries_; ++q) total_[q].write(output(q), layer_.head_dim);
  }

  /// Computes the splits numbered [splits.begin, splits.end) and writes the result of each to `parts`,
  /// unmerged.
  void run_splits(row_range splits, const attention_parts& parts) {
    pack_queries();
    for (std::uint32_t s = splits.begin; s < splits.end; ++s) {
      compute(s * split_positions);
      for (std::uint32_t q = 0; q < num_queries_; ++q) {
        if (!is_seen(q)) continue;
        const std::size_t at = parts.index(row_of(q), args_.num_heads, head_of(q), s);
        parts.max[at] = part_max_[q];
        parts.sum[at] = part_sum_[q];
        __builtin_memcpy(parts.acc + at * parts.acc_stride, part_[q], whole_dim_ * sizeof(float));
      }
    }
  }

 private:
  const device::batch_entry& entry(std::uint32_t row) const {
    return args_.batch->rows[unit_.rows.begin + row];
  }
  std::uint32_t first_position(std::uint32_t row) const {
    return device::first_visible(args_, entry(row).position);
  }
  std::uint32_t end_position(std::uint32_t row) const { return entry(row).position.value + 1; }
  /// Returns the first position that is on the row's path. An earlier position p is in slot p; the others are
  /// in the slots of the path (`batch_entry`).
  std::uint32_t linear_end(std::uint32_t row) const { return end_position(row) - entry(row).path_length; }

  /// Copies the queries to queries_ as [head_dim][num_queries_], so that the queries of a tile (queries
  /// processed together in registers) are adjacent.
  void pack_queries() {
    for (std::uint32_t q = 0; q < num_queries_; ++q) {
      const float* from =
          args_.queries + row_of(q) * args_.query_stride + std::size_t{head_of(q)} * layer_.head_dim;
      for (std::uint32_t d = 0; d < layer_.head_dim; ++d) queries_[d * num_queries_ + q] = from[d];
    }
  }

  std::uint32_t row_of(std::uint32_t q) const { return unit_.rows.begin + q / num_heads_; }
  std::uint32_t head_of(std::uint32_t q) const { return unit_.head_begin + q % num_heads_; }
  float* output(std::uint32_t q) const {
    return args_.out + row_of(q) * args_.out_stride + std::size_t{head_of(q)} * layer_.head_dim;
  }
  /// True if the query's row sees a position of the current split.
  bool is_seen(std::uint32_t q) const { return begin_[q / num_heads_] < end_[q / num_heads_]; }

  /// `split` is the first position of the split. For each row that sees any of its positions, computes the
  /// row's part_max_, part_sum_ and part_.
  void compute(std::uint32_t split) {
    std::uint32_t shared_begin = 0;
    std::uint32_t shared_end = split_positions;
    std::uint32_t any_begin = split_positions;
    std::uint32_t any_end = 0;
    for (std::uint32_t r = 0; r < num_rows_; ++r) {
      begin_[r] = within(first_position(r), split);
      end_[r] = within(end_position(r), split);
      if (begin_[r] < end_[r]) {
        any_begin = lower(any_begin, begin_[r]);
        any_end = higher(any_end, end_[r]);
      }
      shared_begin = higher(shared_begin, begin_[r]);
      shared_end = lower(shared_end, lower(end_[r], within(linear_end(r), split)));
    }
    score(split, any_begin, any_end);
    for (std::uint32_t r = 0; r < num_rows_; ++r) {
      if (begin_[r] >= end_[r]) continue;
      if constexpr (is_code<T>) gather_scales(r, split);
      // Two loops, so that the CPU can overlap the scaling of one query with the maximum of another.
      for (std::uint32_t q = r * num_heads_; q < (r + 1) * num_heads_; ++q) scale(q, begin_[r], end_[r]);
      for (std::uint32_t q = r * num_heads_; q < (r + 1) * num_heads_; ++q) weigh(q, begin_[r], end_[r]);
    }
    add_values(split, shared_begin, shared_end);
  }

  static std::uint32_t within(std::uint32_t position, std::uint32_t split) {
    return position < split ? 0 : lower(position - split, split_positions);
  }

  /// Writes to weights_ the dot products of queries and keys, not yet scaled, for offsets [begin, end) of the
  /// split, rounded out to groups of 16. A group that is not linear is computed only for rows that see
  /// positions of it.
  void score(std::uint32_t split, std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t g = begin / V::lanes * V::lanes; g < end;) {
      if (const std::uint32_t count = locate_keys(split, g, end); count > 0) {
        score_groups(0, num_queries_, groups_, count, layer_.block_size, g);
        g += count * V::lanes;
        continue;
      }
      for (std::uint32_t r = 0; r < num_rows_; ++r) {
        const std::uint32_t group_begin = higher(g, begin_[r]);
        const std::uint32_t group_end = lower(g + V::lanes, end_[r]);
        if (group_begin >= group_end) continue;
        gather_keys(r, split, g, group_begin, group_end);
        const located_group<T> group{gathered_, gathered_};
        score_groups(r * num_heads_, (r + 1) * num_heads_, &group, 1, V::lanes, g);
      }
      g += V::lanes;
    }
  }

  /// Locates consecutive groups from offset `group` of the split up to `end`, and stops at the first that is
  /// not linear (`group_is_linear`). Stores them in groups_ and returns their number.
  std::uint32_t locate_keys(std::uint32_t split, std::uint32_t group, std::uint32_t end) {
    std::uint32_t count = 0;
    for (; group + count * V::lanes < end && group_is_linear(split + group + count * V::lanes); ++count) {
      const std::uint32_t slot = split + group + count * V::lanes;
      const block_id block = blocks_[slot / layer_.block_size];
      const std::uint32_t cell = slot % layer_.block_size;
      groups_[count] = {static_cast<const T*>(layer_.keys) + layer_.key_index(block, kv_head_, cell, 0),
                        static_cast<const T*>(layer_.values) + layer_.value_index(block, kv_head_, cell, 0)};
    }
    return count;
  }

  /// True if the 16 cells of the group that begins at position `first` can be read directly: block_size is a
  /// multiple of 16, and every position of the group that a row sees is in the slot with the same number.
  bool group_is_linear(std::uint32_t first) const {
    if (layer_.block_size % V::lanes != 0) return false;
    for (std::uint32_t r = 0; r < num_rows_; ++r)
      if (lower(first + V::lanes, end_position(r)) > higher(linear_end(r), first)) return false;
    return true;
  }

  void gather_keys(std::uint32_t row, std::uint32_t split, std::uint32_t group, std::uint32_t begin,
                   std::uint32_t end) {
    for (std::uint32_t i = 0; i < layer_.head_dim * V::lanes; ++i) gathered_[i] = T{};
    for (std::uint32_t j = begin; j < end; ++j) {
      const std::uint32_t slot = slot_of(row, split + j);
      const T* key =
          static_cast<const T*>(layer_.keys) +
          layer_.key_index(blocks_[slot / layer_.block_size], kv_head_, slot % layer_.block_size, 0);
      for (std::uint32_t d = 0; d < layer_.head_dim; ++d)
        gathered_[d * V::lanes + (j - group)] = key[std::size_t{d} * layer_.block_size];
    }
  }

  void score_groups(std::uint32_t query_begin, std::uint32_t query_end, const located_group<T>* groups,
                    std::uint32_t count, std::size_t stride, std::uint32_t group) {
    for_tiles<V>(query_begin, query_end, [&]<std::uint32_t Q>(std::uint32_t first) {
      const auto tile = [&]<std::uint32_t G>(std::uint32_t g) {
        const std::uint32_t next = g + 2 * G <= count ? g + G : g;
        score_tile<V, T, Q, G>(queries_ + first, num_queries_, groups + g, groups + next, stride,
                               layer_.head_dim, weights_[first] + group + g * V::lanes);
      };
      std::uint32_t g = 0;
      for (; g + groups_at_once<V, Q> <= count; g += groups_at_once<V, Q>)
        tile.template operator()<groups_at_once<V, Q>>(g);
      for (; g < count; ++g) tile.template operator()<1>(g);
    });
  }

  /// Sets key_scales_ and value_scales_ for the positions of the split that `row` sees, and 0 for the others.
  void gather_scales(std::uint32_t row, std::uint32_t split) {
    const std::uint32_t begin = begin_[row] / V::lanes * V::lanes;
    for (std::uint32_t j = begin; j < split_positions; ++j) key_scales_[j] = value_scales_[j] = 0;
    for_runs(row, split, begin_[row], end_[row],
             [&](std::uint32_t j, block_id block, std::uint32_t cell, std::uint32_t run) {
               const std::size_t at = layer_.scale_index(block, kv_head_, cell);
               for (std::uint32_t i = 0; i < run; ++i) {
                 key_scales_[j + i] = layer_.key_scales[at + i];
                 value_scales_[j + i] = layer_.value_scales[at + i];
               }
             });
  }

  /// Scales and soft-caps the scores of query `q`, and sets part_max_[q] to their maximum. Scores outside
  /// [begin, end), up to whole groups of 16, become -infinity.
  void scale(std::uint32_t q, std::uint32_t begin, std::uint32_t end) {
    float* scores = weights_[q];
    const std::uint32_t group_begin = begin / V::lanes * V::lanes;
    const std::uint32_t group_end = (end + V::lanes - 1) / V::lanes * V::lanes;
    const auto scale = V::set1(args_.scale);
    const bool capped = args_.soft_cap != 0;
    const auto cap = V::set1(args_.soft_cap);
    const auto inverse_cap = V::set1(1.0F / args_.soft_cap);
    for (std::uint32_t j = group_begin; j < group_end; j += V::lanes) {
      auto x = V::load(scores + j);
      if constexpr (is_code<T>) x = V::mul(x, V::load(key_scales_ + j));
      x = V::mul(x, scale);
      if (capped) x = V::mul(cap, tanh<V>(V::mul(x, inverse_cap)));
      V::store(scores + j, x);
    }
    for (std::uint32_t j = group_begin; j < begin; ++j) scores[j] = -__builtin_inff();
    for (std::uint32_t j = end; j < group_end; ++j) scores[j] = -__builtin_inff();
    auto max = V::load(scores + group_begin);
    for (std::uint32_t j = group_begin + V::lanes; j < group_end; j += V::lanes)
      max = V::max(max, V::load(scores + j));
    part_max_[q] = V::reduce_max(max);
  }

  /// Turns the scores of one query into weights exp(score - max), and computes their sum. For codes the
  /// weights are then multiplied by the scales of the values, so that the sum over positions needs no scales.
  void weigh(std::uint32_t q, std::uint32_t begin, std::uint32_t end) {
    float* scores = weights_[q];
    const std::uint32_t group_begin = begin / V::lanes * V::lanes;
    const std::uint32_t group_end = (end + V::lanes - 1) / V::lanes * V::lanes;
    const auto shift = V::set1(part_max_[q]);
    auto sum = V::zero();
    const auto weigh_groups = [&]<std::uint32_t G>(std::uint32_t j) {
      typename V::vec weight[G];
      repeat<G>([&](auto g) { weight[g] = exp<V>(V::sub(V::load(scores + j + g * V::lanes), shift)); });
      repeat<G>([&](auto g) {
        sum = V::add(sum, weight[g]);
        if constexpr (is_code<T>) weight[g] = V::mul(weight[g], V::load(value_scales_ + j + g * V::lanes));
        V::store(scores + j + g * V::lanes, weight[g]);
      });
    };
    std::uint32_t j = group_begin;
    for (; j + 2 * V::lanes <= group_end; j += 2 * V::lanes) weigh_groups.template operator()<2>(j);
    if (j < group_end) weigh_groups.template operator()<1>(j);
    part_sum_[q] = V::reduce_add(sum);
  }

  /// Sets part_[q] to the weighted sum of the values. Offsets [shared_begin, shared_end), which all rows read
  /// from the same cells, are added for all queries at once; the others are added row by row.
  void add_values(std::uint32_t split, std::uint32_t shared_begin, std::uint32_t shared_end) {
    for (std::uint32_t q = 0; q < num_queries_; ++q)
      for (std::uint32_t d = 0; d < whole_dim_; ++d) part_[q][d] = 0;
    if (shared_begin >= shared_end) {
      for (std::uint32_t r = 0; r < num_rows_; ++r) add_row(r, split, begin_[r], end_[r]);
      return;
    }
    for (std::uint32_t r = 0; r < num_rows_; ++r) add_row(r, split, begin_[r], shared_begin);
    locate_values(0, split, shared_begin, shared_end);
    add_range(0, num_queries_, shared_begin, shared_end);
    for (std::uint32_t r = 0; r < num_rows_; ++r) add_row(r, split, shared_end, end_[r]);
  }

  void add_row(std::uint32_t row, std::uint32_t split, std::uint32_t begin, std::uint32_t end) {
    if (begin >= end) return;
    locate_values(row, split, begin, end);
    add_range(row * num_heads_, (row + 1) * num_heads_, begin, end);
  }

  void add_range(std::uint32_t query_begin, std::uint32_t query_end, std::uint32_t begin, std::uint32_t end) {
    for_tiles<V>(query_begin, query_end, [&]<std::uint32_t Q>(std::uint32_t first) {
      constexpr std::uint32_t wide = groups_at_once<V, Q> * V::lanes;
      std::uint32_t d = 0;
      for (; d + wide <= layer_.head_dim; d += wide)
        value_tile<V, T, Q, groups_at_once<V, Q>>(weights_[first], cells_, begin, end, d, 0, part_[first]);
      for (; d < layer_.head_dim; d += V::lanes) {
        const std::uint32_t rest = d + V::lanes <= layer_.head_dim ? 0 : layer_.head_dim - d;
        value_tile<V, T, Q, 1>(weights_[first], cells_, begin, end, d, rest, part_[first]);
      }
    });
  }

  /// Sets cells_[j] to the address of the value of position split + j as `row` sees it.
  void locate_values(std::uint32_t row, std::uint32_t split, std::uint32_t begin, std::uint32_t end) {
    for_runs(row, split, begin, end,
             [&](std::uint32_t j, block_id block, std::uint32_t cell, std::uint32_t run) {
               const T* const value =
                   static_cast<const T*>(layer_.values) + layer_.value_index(block, kv_head_, cell, 0);
               for (std::uint32_t i = 0; i < run; ++i)
                 cells_[j + i] = value + std::size_t{i} * layer_.head_dim;
             });
  }

  /// Covers the positions [split + begin, split + end), as `row` sees them, by calls of fn(j, block, cell,
  /// run): the `run` positions from split + j on are in adjacent cells of `block`, beginning with `cell`.
  template <class Fn>
  void for_runs(std::uint32_t row, std::uint32_t split, std::uint32_t begin, std::uint32_t end,
                const Fn& fn) {
    const std::uint32_t linear = linear_end(row);
    for (std::uint32_t j = begin; j < end;) {
      const std::uint32_t slot = slot_of(row, split + j);
      const std::uint32_t cell = slot % layer_.block_size;
      std::uint32_t run = 1;
      if (split + j < linear) run = lower(lower(layer_.block_size - cell, linear - (split + j)), end - j);
      fn(j, blocks_[slot / layer_.block_size], cell, run);
      j += run;
    }
  }

  std::uint32_t slot_of(std::uint32_t row, std::uint32_t position) const {
    const std::uint32_t linear = linear_end(row);
    if (position < linear) return position;
    return args_.batch->paths[entry(row).path_begin + (position - linear)].value;
  }

  const device::attention_args& args_;
  const device::kv_layer& layer_;
  const attention_unit& unit_;
  const std::uint32_t num_heads_;
  const std::uint32_t num_rows_;
  const std::uint32_t num_queries_;
  const std::uint32_t whole_dim_; ///< head_dim rounded up to whole vectors
  const std::uint32_t kv_head_;
  const block_id* const blocks_;

  std::uint32_t begin_[max_queries]; // for each row, within the current split
  std::uint32_t end_[max_queries];
  float part_max_[max_queries], part_sum_[max_queries]; // of the current split
  const T* cells_[split_positions];
  located_group<T> groups_[split_positions / V::lanes];
  T gathered_[max_head_dim * V::lanes];
  alignas(64) float key_scales_[split_positions]; // of the current row and split; used for codes only
  alignas(64) float value_scales_[split_positions];
  alignas(64) float queries_[max_head_dim * max_queries];
  alignas(64) float weights_[max_queries][split_positions];
  alignas(64) float part_[max_queries][max_head_dim];
  merged_splits<V> total_[max_queries];
};

// The functions of row_kernels with the same names. runtime/cpu/row_kernels.hpp has their contracts.

template <class V>
void attention(const device::attention_args& args, const attention_unit& unit) {
  with_element(args.layer.type,
               [&](auto element) { unit_attention<V, decltype(element)>(args, unit).run(); });
}

template <class V>
void attention_splits(const device::attention_args& args, const attention_unit& unit, row_range splits,
                      const attention_parts& parts) {
  with_element(args.layer.type, [&](auto element) {
    unit_attention<V, decltype(element)>(args, unit).run_splits(splits, parts);
  });
}

template <class V>
void merge_splits(const device::attention_args& args, row_range rows, const attention_parts& parts) {
  const std::uint32_t head_dim = args.layer.head_dim;
  for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
    const auto position = args.batch->rows[r].position;
    const std::uint32_t last = position.value / split_positions;
    for (std::uint32_t h = 0; h < args.num_heads; ++h) {
      merged_splits<V> total;
      for (std::uint32_t s = device::first_visible(args, position) / split_positions; s <= last; ++s) {
        const std::size_t at = parts.index(r, args.num_heads, h, s);
        total.add(parts.max[at], parts.sum[at], parts.acc + at * parts.acc_stride, parts.acc_stride);
      }
      total.write(args.out + r * args.out_stride + std::size_t{h} * head_dim, head_dim);
    }
  }
}

} // namespace
} // namespace paceline::cpu
