#pragma once

#include "runtime/sampling/row_kernels.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace paceline::sampling {

/// Order by likelihood: higher score first, ties to the lowest id.
inline bool likelier(const candidate& a, const candidate& b) noexcept {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

/// Replaces `out` by the `count` likeliest tokens of a row (scale not applied), likeliest first. Tokens whose
/// value is -infinity or NaN are left out, so `out` may get fewer tokens.
void select_top(std::span<const float> row, std::size_t count, std::vector<candidate>& out);

/// Parameters of truncation. Neutral values: top_k = 0, top_p = 1, min_p = 0.
struct truncation {
  std::size_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;

  /// The lowest score that min-p keeps.
  float least_score() const noexcept;
  bool active(std::size_t vocab_size) const noexcept {
    return (top_k > 0 && top_k < vocab_size) || top_p < 1.0F || min_p > 0.0F;
  }
};

/// Replaces `out` by the tokens that survive top-k, then top-p (among the top-k tokens), then min-p, with
/// their scores, in unspecified order. Top-p keeps the shortest run of the likeliest tokens whose weight
/// (portable_exp of the score) reaches top_p times the total weight. After a top-k of at most
/// device::max_top_k, the run's weight and the total weight are added up in double precision in order of
/// likelihood, so that a device can compute the same sums. Otherwise the order of addition is chosen for
/// speed. `maxima` are the row's chunk_maxima, and scale.shift is the largest of them. At least one token
/// survives.
void truncate(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
              const truncation& rule, std::vector<candidate>& out);

} // namespace paceline::sampling
