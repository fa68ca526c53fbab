#pragma once

// The inner loops of attention over vectors of 16 lanes; V is a simd_* of this folder.
#include "runtime/cpu/kernels/math.hpp"
#include "runtime/cpu/row_kernels.hpp"

#include <bit>
#include <type_traits>
#include <utility>

namespace paceline::cpu {
namespace {

constexpr std::uint32_t max_head_dim = device::max_head_dim;
constexpr std::uint32_t max_queries = attention_unit_queries;
constexpr std::uint32_t split_positions = device::attention_split;

constexpr std::uint32_t lower(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
constexpr std::uint32_t higher(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }

/// Calls `body` with the constants 0, 1, ..., N - 1. Unlike a loop it keeps arrays of accumulators in
/// registers: the compiler assigns array elements to registers only if the indices are constant before
/// unrolling.
template <std::uint32_t N, class Body>
[[gnu::always_inline]] inline void repeat(const Body& body) {
  [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>) [[gnu::always_inline]] {
    (body(std::integral_constant<std::uint32_t, I>{}), ...);
  }
  (std::make_integer_sequence<std::uint32_t, N>{});
}

/// Number of groups (of 16 positions, or of 16 dimensions) that a tile of Q queries processes at the same
/// time: at least V::chains independent chains keep the arithmetic units busy. Rounded up to a power of two,
/// because the number of groups is often a power of two.
template <class V, std::uint32_t Q>
constexpr std::uint32_t groups_at_once = std::bit_ceil((V::chains + Q - 1) / Q);

constexpr std::size_t cache_line_bytes = 64;

/// Location of a group of 16 positions. The blocks of a sequence are scattered, so the processor cannot
/// predict the next block, and kernels prefetch it.
template <class T>
struct located_group {
  const T* keys;   ///< adjacent positions; dimensions are `stride` values apart
  const T* values; ///< position after position
};

/// Scores of Q queries at G groups of 16 positions. Prefetches the keys of `next`, and the values of
/// `groups`, which are read after all scores of the split are computed. queries: [head_dim][query_stride];
/// the first Q of each line are used. out: queries are split_positions values apart; groups are 16 values
/// apart.
template <class V, class T, std::uint32_t Q, std::uint32_t G>
void score_tile(const float* queries, std::uint32_t query_stride, const located_group<T>* groups,
                const located_group<T>* next, std::size_t stride, std::uint32_t head_dim, float* out) {
  typename V::vec dot[G * Q];
  repeat<G * Q>([&](auto i) { dot[i] = V::zero(); });
  const auto add_dimension = [&](std::uint32_t d) __attribute__((always_inline)) {
    const float* line = queries + d * query_stride;
    repeat<G>([&](auto g) {
      const auto key = V::load(groups[g].keys + d * stride);
      repeat<Q>([&](auto q) { V::add_product(dot[g * Q + q], V::broadcast(line + q), key); });
    });
  };
  // Dimensions in a cache line, if a block has 16 cells.
  constexpr std::uint32_t a_line = cache_line_bytes / sizeof(T) / V::lanes;
  std::uint32_t d = 0;
  for (; d + a_line <= head_dim; d += a_line) {
    repeat<G>([&](auto g) {
      __builtin_prefetch(next[g].keys + d * stride);
      __builtin_prefetch(groups[g].values + d * V::lanes);
    });
    repeat<a_line>([&](auto i) { add_dimension(d + i); });
  }
  for (; d < head_dim; ++d) add_dimension(d);
  repeat<G>([&](auto g) {
    repeat<Q>([&](auto q) { V::store(out + q * split_positions + g * V::lanes, dot[g * Q + q]); });
  });
}

/// acc[q][d .. d + 16 * G) += sum over j of weights[q][j] * cells[j][d .. d + 16 * G), in order of j. If
/// `rest` is not 0, only that many dimensions remain, and G is 1.
template <class V, class T, std::uint32_t Q, std::uint32_t G>
void value_tile(const float* weights, const T* const* cells, std::uint32_t begin, std::uint32_t end,
                std::uint32_t d, std::uint32_t rest, float* acc) {
  typename V::vec sum[G * Q];
  repeat<G>([&](auto g) {
    repeat<Q>([&](auto q) { sum[g * Q + q] = V::load(acc + q * max_head_dim + d + g * V::lanes); });
  });
  const auto add = [&](std::uint32_t j, auto g, typename V::vec value) {
    repeat<Q>([&](auto q) {
      V::add_product(sum[g * Q + q], V::broadcast(weights + q * split_positions + j), value);
    });
  };
  if (rest == 0)
    for (std::uint32_t j = begin; j < end; ++j)
      repeat<G>([&](auto g) { add(j, g, V::load(cells[j] + d + g * V::lanes)); });
  else
    for (std::uint32_t j = begin; j < end; ++j)
      add(j, std::integral_constant<std::uint32_t, 0>(), V::load_partial(cells[j] + d, rest));
  repeat<G>([&](auto g) {
    repeat<Q>([&](auto q) { V::store(acc + q * max_head_dim + d + g * V::lanes, sum[g * Q + q]); });
  });
}

/// Calls `tile.template operator()<Q>(first)` over queries [begin, end) in tiles that fit the registers and
/// are as equal as possible.
template <class V, class Tile>
void for_tiles(std::uint32_t begin, std::uint32_t end, const Tile& tile) {
  const std::uint32_t count = end - begin;
  const std::uint32_t num_tiles = (count + V::tile_queries - 1) / V::tile_queries;
  for (std::uint32_t t = 0; t < num_tiles; ++t) {
    const std::uint32_t first = begin + count * t / num_tiles;
    const std::uint32_t size = begin + count * (t + 1) / num_tiles - first;
    [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>) {
      (void)((size == I + 1 && (tile.template operator()<I + 1>(first), true)) || ...);
    }
    (std::make_integer_sequence<std::uint32_t, V::tile_queries>{});
  }
}

/// The merged result of one query's splits so far.
template <class V>
class merged_splits {
 public:
  void add(float max, float sum, const float* acc, std::uint32_t whole_dim) {
    if (!started_) {
      started_ = true;
      max_ = max;
      sum_ = sum;
      __builtin_memcpy(acc_, acc, whole_dim * sizeof(float));
      return;
    }
    const float highest = max_ > max ? max_ : max;
    const auto a = exp<V>(V::set1(max_ - highest));
    const auto b = exp<V>(V::set1(max - highest));
    max_ = highest;
    sum_ = V::first(V::fma(V::set1(sum_), a, V::mul(V::set1(sum), b)));
    for (std::uint32_t d = 0; d < whole_dim; d += V::lanes)
      V::store(acc_ + d, V::fma(V::load(acc_ + d), a, V::mul(V::load(acc + d), b)));
  }

  void write(float* out, std::uint32_t head_dim) const {
    for (std::uint32_t d = 0; d < head_dim; ++d) out[d] = acc_[d] / sum_;
  }

 private:
  bool started_ = false;
  float max_ = 0, sum_ = 0;
  alignas(64) float acc_[max_head_dim];
};

} // namespace
} // namespace paceline::cpu
