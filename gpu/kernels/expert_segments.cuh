#pragma once

#include "gpu/kernels/dialect.cuh"
#include "gpu/kernels/expert_params.hpp"

#include <bit>

// Sorts the pairs of a mixture by expert, and finds the pairs of a block.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

PACELINE_DEVICE std::uint32_t shuffle_xor_bits(std::uint32_t bits, std::uint32_t mask) {
  return std::bit_cast<std::uint32_t>(shuffle_xor(std::bit_cast<float>(bits), mask));
}

/// A sum over the lanes of a warp.
struct sum_of_lanes {
  std::uint32_t before = 0; ///< sum over the lanes below this one
  std::uint32_t all = 0;
};
/// All lanes of the warp call it.
PACELINE_DEVICE sum_of_lanes add_over_lanes(std::uint32_t value) {
  sum_of_lanes out{0, value};
  for (std::uint32_t mask = 1; mask < warp_size; mask *= 2) {
    const std::uint32_t other = shuffle_xor_bits(out.all, mask);
    if ((lane_index() & mask) != 0) out.before += other;
    out.all += other;
  }
  return out;
}

/// A warp finds the pairs of one expert and writes them after the pairs of lower experts. The order of an
/// expert's pairs is fixed, but not ascending. No result depends on this order.
PACELINE_KERNEL sort_pairs(sort_pairs_params p) {
  begin_in_turn();
  const std::uint32_t expert = block_x() * sort_warps + warp_index();
  if (expert >= p.num_experts) return; // the whole warp returns
  std::uint32_t num_lower = 0, num_own = 0;
  for (std::uint32_t i = lane_index(); i < p.num_pairs; i += warp_size) {
    const auto other = static_cast<std::uint32_t>(p.used[i].index);
    num_lower += other < expert ? 1 : 0;
    num_own += other == expert ? 1 : 0;
  }
  const sum_of_lanes own = add_over_lanes(num_own);
  std::uint32_t place = add_over_lanes(num_lower).all + own.before;
  for (std::uint32_t i = lane_index(); i < p.num_pairs; i += warp_size)
    if (static_cast<std::uint32_t>(p.used[i].index) == expert) p.order[place++] = i;
  if (lane_index() == 0) p.counts[expert] = own.all;
}

/// Pairs of one expert that are adjacent in `expert_pairs::order`: the work of a block.
struct expert_segment {
  std::uint32_t expert = 0;
  std::uint32_t first = 0; ///< index in `expert_pairs::order`
  std::uint32_t count = 0; ///< 0: there is no such segment
};

/// Segment number `number`, where a segment has at most `most` pairs. All lanes of the warp call it.
PACELINE_DEVICE expert_segment segment_at(const expert_pairs& pairs, std::uint32_t number,
                                          std::uint32_t most) {
  expert_segment found{};
  if (pairs.order == nullptr) {
    if (number < pairs.num_pairs) found = {static_cast<std::uint32_t>(pairs.used[number].index), number, 1};
    return found;
  }
  // Each lane has some adjacent experts; the lane that has the segment's expert passes it to the others.
  const std::uint32_t of_lane = (pairs.num_experts + warp_size - 1) / warp_size;
  const std::uint32_t begin = lane_index() * of_lane;
  const auto count_of = [&](std::uint32_t i) {
    return begin + i < pairs.num_experts ? pairs.counts[begin + i] : 0U;
  };
  std::uint32_t num_pairs = 0, num_segments = 0;
  for (std::uint32_t i = 0; i < of_lane; ++i) {
    num_pairs += count_of(i);
    num_segments += (count_of(i) + most - 1) / most;
  }
  std::uint32_t first = add_over_lanes(num_pairs).before;
  std::uint32_t segment = add_over_lanes(num_segments).before;
  for (std::uint32_t i = 0; i < of_lane; ++i) {
    const std::uint32_t count = count_of(i), segments = (count + most - 1) / most;
    if (number >= segment && number < segment + segments) {
      const std::uint32_t skipped = (number - segment) * most;
      found = {begin + i, first + skipped, count - skipped < most ? count - skipped : most};
    }
    first += count, segment += segments;
  }
  for (std::uint32_t mask = 1; mask < warp_size; mask *= 2) {
    found.expert |= shuffle_xor_bits(found.expert, mask);
    found.first |= shuffle_xor_bits(found.first, mask);
    found.count |= shuffle_xor_bits(found.count, mask);
  }
  return found;
}

/// The pair at a place in `expert_pairs::order`.
PACELINE_DEVICE std::uint32_t pair_at(const expert_pairs& pairs, std::uint32_t place) {
  return pairs.order != nullptr ? pairs.order[place] : place;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
