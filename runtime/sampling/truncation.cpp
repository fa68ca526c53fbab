#include "runtime/sampling/truncation.hpp"

#include "runtime/base/portable_math.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace paceline::sampling {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// Tokens whose score is at least `bound` (and not -infinity), by ascending id. Chunks below the bound are
/// not read.
void gather(std::span<const float> row, std::span<const float> maxima, const row_scale& scale, float bound,
            std::vector<candidate>& out) {
  std::size_t count = 0;
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk) {
    if (!(scale(maxima[chunk]) >= bound)) continue;
    const std::size_t begin = chunk * chunk_size;
    const std::size_t end = std::min(begin + chunk_size, row.size());
    if (out.size() < count + chunk_size) out.resize(2 * count + chunk_size);
    std::array<float, chunk_size> scores;
    for (std::size_t i = begin; i < end; ++i) scores[i - begin] = scale(row[i]);
    for (std::size_t i = begin; i < end; ++i) { // without branches: which tokens pass is unpredictable
      const float score = scores[i - begin];
      out[count] = {score, token_id{static_cast<std::int32_t>(i)}};
      count += static_cast<std::size_t>((score >= bound) & (score > minus_infinity));
    }
  }
  out.resize(count);
}

/// The `count` likeliest, in no order. The count-th largest chunk maximum is no larger than the count-th
/// largest score, so nothing below it is needed.
void gather_top(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                std::size_t count, std::vector<candidate>& out) {
  float bound = minus_infinity;
  if (count > 0 && count <= maxima.size()) {
    thread_local std::vector<float> ranked;
    ranked.assign(maxima.begin(), maxima.end());
    const auto nth = ranked.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(ranked.begin(), nth, ranked.end(), std::greater<>());
    bound = scale(*nth);
  }
  gather(row, maxima, scale, bound, out);
  if (out.size() <= count) return;
  std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count), out.end(), likelier);
  out.resize(count);
}

double weight_of(const candidate& token) noexcept { return static_cast<double>(portable_exp(token.score)); }

/// Eighths of a unit of score below the best: tokens are ranked by drawer, and only those of one drawer
/// sorted.
constexpr std::size_t num_drawers = 1024;
std::size_t drawer_of(const candidate& token) noexcept {
  const float eighths = token.score * -8.0F;
  return eighths < static_cast<float>(num_drawers - 1) ? static_cast<std::size_t>(eighths) : num_drawers - 1;
}

/// Keeps the shortest leading run (in order of likelihood) whose weight reaches `needed`; all, if none does,
/// and returns false. Weights are summed by drawer, and within the decisive drawer in order of likelihood.
bool keep_leading(double needed, std::vector<candidate>& tokens) {
  std::array<double, num_drawers> weights{};
  for (const candidate& token : tokens) weights[drawer_of(token)] += weight_of(token);
  double sum = 0;
  std::size_t decisive = 0;
  while (decisive < num_drawers && sum + weights[decisive] < needed) sum += weights[decisive++];
  if (decisive == num_drawers) return false;
  const auto middle = std::partition(tokens.begin(), tokens.end(),
                                     [&](const candidate& token) { return drawer_of(token) < decisive; });
  const auto end = std::partition(middle, tokens.end(),
                                  [&](const candidate& token) { return drawer_of(token) == decisive; });
  std::sort(middle, end, likelier);
  auto last = middle;
  while (last != end && sum < needed) sum += weight_of(*last++);
  tokens.erase(last, tokens.end());
  return true;
}

/// Scores down to which top-p looks before it looks further: a nucleus is a few tokens of a large vocabulary,
/// and those above a bound are enough once they weigh enough together. Whole drawers, so that the sums are the
/// same.
constexpr std::array<float, 3> nucleus_bounds{-8.0F, -12.0F, -16.0F};

/// top-p over the whole row. All tokens lighter than (1 - top_p) * total / size weigh less than (1 - top_p) *
/// total together, so the run ends before them; half of that bound leaves room for rounding.
void keep_nucleus(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                  float top_p, std::vector<candidate>& out) {
  const double total = sum_of_exp(row, scale);
  const double needed = static_cast<double>(top_p) * total;
  for (const float bound : nucleus_bounds) {
    gather(row, maxima, scale, bound, out);
    if (keep_leading(needed, out)) return;
  }
  const double lightest = 0.5 * (1.0 - static_cast<double>(top_p)) * total / static_cast<double>(row.size());
  gather(row, maxima, scale, static_cast<float>(portable_log(lightest)), out);
  keep_leading(needed, out);
}

} // namespace

void select_top(std::span<const float> row, std::size_t count, std::vector<candidate>& out) {
  gather_top(row, chunk_maxima(row), {}, count, out);
  std::sort(out.begin(), out.end(), likelier);
}

float truncation::least_score() const noexcept {
  return min_p > 0 ? static_cast<float>(portable_log(static_cast<double>(min_p))) : minus_infinity;
}

void truncate(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
              const truncation& rule, std::vector<candidate>& out) {
  const float min_score = rule.least_score();
  if (rule.top_k > 0 && rule.top_k < row.size()) {
    gather_top(row, maxima, scale, rule.top_k, out);
    if (rule.top_p < 1.0F) {
      double total = 0;
      for (const candidate& token : out) total += weight_of(token);
      keep_leading(static_cast<double>(rule.top_p) * total, out);
    }
  } else if (rule.top_p < 1.0F) {
    keep_nucleus(row, maxima, scale, rule.top_p, out);
  } else {
    gather(row, maxima, scale, min_score, out);
  }
  std::erase_if(out, [&](const candidate& token) { return token.score < min_score; });
}

} // namespace paceline::sampling
