#pragma once

#include "runtime/sampling/row_kernels.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace paceline::sampling {

/// Replaces `out` by the `count` likeliest tokens of the row, likeliest first; fewer if the row has fewer
/// that are not -infinity.
void select_top(std::span<const float> scores, std::size_t count, std::vector<candidate>& out);

/// Which tokens truncation keeps. A value that removes nothing: top_k = 0, top_p = 1, min_p = 0.
struct truncation {
  std::size_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;

  bool active(std::size_t vocab_size) const noexcept {
    return (top_k > 0 && top_k < vocab_size) || top_p < 1.0F || min_p > 0.0F;
  }
};

/// Replaces `out` by the survivors of top-k, then top-p (over what top-k kept), then min-p, in no promised
/// order. The largest score must be 0. At least one token survives.
void truncate(std::span<const float> scores, const truncation& rule, std::vector<candidate>& out);

} // namespace paceline::sampling
