#pragma once

#include "gpu/kernels/choice_params.hpp"
#include "gpu/kernels/dialect.cuh"

#include <limits>

// Finds the best few of many scores, in order, with the threads of a block.

namespace paceline::gpu::PACELINE_KERNEL_SPACE {

/// An item that comes after every real score.
PACELINE_DEVICE scored no_score() { return {-std::numeric_limits<float>::infinity(), 0xFFFFFFFFU}; }
PACELINE_DEVICE bool has_score(const scored& one) {
  return one.score > -std::numeric_limits<float>::infinity();
}

/// Higher scores first, ties to the lowest index.
PACELINE_DEVICE bool precedes(const scored& a, const scored& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/// One round of `find_best`: merges the items that threads offer into the best ones so far. Returns false if
/// no thread offered one.
PACELINE_DEVICE bool merge_offers(std::uint32_t count, best_memory& shared) {
  const scored kept = shared.best[thread_index()], offered = shared.offered[thread_index()];
  std::uint32_t rank_of_kept = 0, rank_of_offered = 0;
  bool is_any = false;
  for (std::uint32_t t = 0; t < choice_threads; ++t) {
    const scored other_kept = shared.best[t], other_offered = shared.offered[t];
    rank_of_kept += precedes(other_kept, kept) + precedes(other_offered, kept);
    rank_of_offered += precedes(other_kept, offered) + precedes(other_offered, offered);
    is_any = is_any || has_score(other_offered);
  }
  sync_block(); // all have read
  if (!is_any) return false;
  shared.best[thread_index()] = no_score();
  sync_block();
  if (has_score(kept) && rank_of_kept < count) shared.best[rank_of_kept] = kept;
  if (has_score(offered) && rank_of_offered < count) shared.best[rank_of_offered] = offered;
  sync_block();
  return true;
}

/// Finds the `count` best of item_at(0) to item_at(num_items - 1), except those below `bound`, a finite
/// number. Leaves them in shared.best, best first, followed by no_score, and returns how many were found. In
/// each round a thread offers its next item that would be among the best. The result depends only on the
/// items, not on the order of the threads.
template <class ItemAt>
PACELINE_DEVICE std::uint32_t find_best(std::uint32_t count, std::uint32_t num_items, float bound,
                                        const ItemAt& item_at, best_memory& shared) {
  shared.best[thread_index()] = no_score();
  sync_block();
  std::uint32_t next = thread_index();
  do {
    const scored last = shared.best[count - 1];
    scored offered = no_score();
    for (; next < num_items && !has_score(offered); next += choice_threads) {
      const scored item = item_at(next);
      if (item.score >= bound && precedes(item, last)) offered = item;
    }
    shared.offered[thread_index()] = offered;
    sync_block();
  } while (merge_offers(count, shared));
  std::uint32_t num_best = 0;
  while (num_best < count && has_score(shared.best[num_best])) ++num_best;
  return num_best;
}

} // namespace paceline::gpu::PACELINE_KERNEL_SPACE
