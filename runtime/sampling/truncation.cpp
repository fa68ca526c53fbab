#include "runtime/sampling/truncation.hpp"

#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/row_kernels.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace paceline::sampling {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Tokens with score >= bound (and not removed), by ascending id. Chunks whose maximum is below the bound are
/// not read.
void gather(std::span<const float> scores, std::span<const float> maxima, float bound,
            std::vector<candidate>& out) {
  out.clear();
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk) {
    if (!(maxima[chunk] >= bound)) continue;
    const std::size_t begin = chunk * chunk_size;
    const std::size_t end = std::min(begin + chunk_size, scores.size());
    for (std::size_t i = begin; i < end; ++i)
      if (scores[i] >= bound && scores[i] > minus_infinity)
        out.push_back({scores[i], token_id{static_cast<std::int32_t>(i)}});
  }
}

std::vector<float>& maxima_of(std::span<const float> scores) {
  thread_local std::vector<float> maxima;
  maxima.resize(num_chunks(scores.size()));
  chunk_maxima(scores, maxima);
  return maxima;
}

void keep_top(std::size_t count, std::vector<candidate>& candidates) {
  if (candidates.size() > count) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                     candidates.end(), likelier);
    candidates.resize(count);
  }
}

/// The `count` likeliest, in no order. The count-th largest chunk maximum is no larger than the count-th
/// largest score, so nothing below it is needed.
void select_top_unordered(std::span<const float> scores, std::size_t count, std::vector<candidate>& out) {
  const std::vector<float>& maxima = maxima_of(scores);
  float bound = minus_infinity;
  if (count > 0 && count <= maxima.size()) {
    thread_local std::vector<float> ranked;
    ranked = maxima;
    const auto nth = ranked.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(ranked.begin(), nth, ranked.end(), std::greater<>());
    bound = *nth;
  }
  gather(scores, maxima, bound, out);
  keep_top(count, out);
}

double weight_of(const candidate& token) noexcept { return static_cast<double>(portable_exp(token.score)); }

/// Keeps the shortest leading run (in order of likelihood) whose weight reaches `needed`. False if all
/// together do not.
bool keep_leading(double needed, std::vector<candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(), likelier);
  double sum = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    sum += weight_of(candidates[i]);
    if (sum >= needed) {
      candidates.resize(i + 1);
      return true;
    }
  }
  return false;
}

/// top-p over the whole row. All tokens lighter than (1 - top_p) * total / size weigh less than (1 - top_p) *
/// total together, so the run ends before them; half of that bound leaves room for rounding.
void nucleus(std::span<const float> scores, float top_p, std::vector<candidate>& out) {
  const double total = sum_of_exp(scores, 0.0F);
  const double needed = static_cast<double>(top_p) * total;
  const double lightest =
      0.5 * (1.0 - static_cast<double>(top_p)) * total / static_cast<double>(scores.size());
  const std::vector<float>& maxima = maxima_of(scores);
  gather(scores, maxima, static_cast<float>(portable_log(lightest)), out);
  if (keep_leading(needed, out)) return;
  gather(scores, maxima, minus_infinity, out);
  keep_leading(needed, out);
}

} // namespace

void select_top(std::span<const float> scores, std::size_t count, std::vector<candidate>& out) {
  select_top_unordered(scores, count, out);
  std::sort(out.begin(), out.end(), likelier);
}

void truncate(std::span<const float> scores, const truncation& rule, std::vector<candidate>& out) {
  const float min_score =
      rule.min_p > 0 ? static_cast<float>(portable_log(static_cast<double>(rule.min_p))) : minus_infinity;
  if (rule.top_k > 0 && rule.top_k < scores.size()) {
    select_top_unordered(scores, rule.top_k, out);
    if (rule.top_p < 1.0F) {
      std::sort(out.begin(), out.end(), likelier);
      double total = 0;
      for (const candidate& token : out) total += weight_of(token);
      keep_leading(static_cast<double>(rule.top_p) * total, out);
    }
  } else if (rule.top_p < 1.0F) {
    nucleus(scores, rule.top_p, out);
  } else {
    gather(scores, maxima_of(scores), min_score, out);
  }
  std::erase_if(out, [&](const candidate& token) { return token.score < min_score; });
}

} // namespace paceline::sampling
