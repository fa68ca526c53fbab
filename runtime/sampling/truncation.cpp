#include "runtime/sampling/truncation.hpp"

#include "runtime/base/portable_math.hpp"
#include "runtime/device/op_choose.hpp"
#include "runtime/sampling/minus_infinity.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>

namespace paceline::sampling {

namespace {

constexpr std::size_t part_size = 16; ///< tokens of a chunk that are skipped together

bool any_at_least(std::span<const float> scores, float bound) noexcept {
  int num_passing = 0; // a sum, which compilers vectorise
  for (const float score : scores) num_passing += score >= bound ? 1 : 0;
  return num_passing > 0;
}

/// Tokens with a score of at least `bound` (and not -infinity), by ascending id. Chunks below the bound are
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
    scaled(row.subspan(begin, end - begin), scale, scores);
    for (std::size_t part = begin; part < end; part += part_size) {
      const std::size_t part_end = std::min(part + part_size, end);
      const std::span<const float> some(scores.data() + (part - begin), part_end - part);
      if (!any_at_least(some, bound)) continue;
      // Branch-free, because it is unpredictable which tokens pass.
      for (std::size_t i = 0; i < some.size(); ++i) {
        const float score = some[i];
        out[count] = {score, token_id{static_cast<std::int32_t>(part + i)}};
        count += static_cast<std::size_t>((score >= bound) & (score > minus_infinity));
      }
    }
  }
  out.resize(count);
}

/// The `count` likeliest tokens in any order. The count-th largest chunk maximum is at most the count-th
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

/// Scores are divided into drawers, each an eighth of a unit of score wide, starting at the best. Only the
/// tokens of one drawer are sorted.
constexpr std::size_t num_drawers = 1024;
constexpr float eighths(const candidate& token) noexcept { return token.score * -8.0F; }
constexpr std::size_t drawer_of(const candidate& token) noexcept {
  return static_cast<std::size_t>(std::min(eighths(token), static_cast<float>(num_drawers - 1)));
}

struct drawers {
  std::array<double, num_drawers> weights{}; ///< added in the order of the tokens
  std::array<std::size_t, num_drawers> sizes{};
};

drawers fill_drawers(std::span<const candidate> tokens) {
  drawers out;
  std::array<float, chunk_size> weights;
  for (std::size_t begin = 0; begin < tokens.size(); begin += chunk_size) {
    const auto block = tokens.subspan(begin, std::min(chunk_size, tokens.size() - begin));
    for (std::size_t i = 0; i < block.size(); ++i) weights[i] = block[i].score;
    exponentials(std::span(weights).first(block.size()));
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::size_t drawer = drawer_of(block[i]);
      out.weights[drawer] += static_cast<double>(weights[i]);
      ++out.sizes[drawer];
    }
  }
  return out;
}

/// Moves the tokens of drawers before `decisive` to the front and returns their number; copies those of the
/// decisive drawer. Branch-free, because a token's drawer is unpredictable.
std::size_t split(std::vector<candidate>& tokens, std::size_t decisive, std::vector<candidate>& in_decisive) {
  const auto begin = static_cast<float>(decisive);
  const float end = decisive + 1 < num_drawers ? begin + 1.0F : std::numeric_limits<float>::infinity();
  std::size_t num_before = 0, num_in = 0;
  for (const candidate token : tokens) {
    const float at = eighths(token);
    tokens[num_before] = token;
    in_decisive[num_in] = token;
    num_before += static_cast<std::size_t>(at < begin);
    num_in += static_cast<std::size_t>((at >= begin) & (at < end));
  }
  return num_before;
}

/// Keeps the shortest leading run (in order of likelihood) whose weight reaches `needed`. If none does, keeps
/// all tokens and returns false. Weights are added by drawer, and within the decisive drawer in order of
/// likelihood.
bool keep_leading(double needed, std::vector<candidate>& tokens) {
  const drawers all = fill_drawers(tokens);
  double sum = 0;
  std::size_t decisive = 0;
  while (decisive < num_drawers && sum + all.weights[decisive] < needed) sum += all.weights[decisive++];
  if (decisive == num_drawers) return false;
  thread_local std::vector<candidate> in_decisive;
  in_decisive.resize(all.sizes[decisive] + 1); // one more, which is written but not kept
  tokens.resize(split(tokens, decisive, in_decisive));
  in_decisive.pop_back();
  std::sort(in_decisive.begin(), in_decisive.end(), likelier);
  for (auto next = in_decisive.begin(); next != in_decisive.end() && sum < needed; ++next) {
    sum += weight_of(*next);
    tokens.push_back(*next);
  }
  return true;
}

/// top-p over few tokens, added in the order of a device (runtime/device/op_choose.hpp).
void keep_leading_of_few(float top_p, std::vector<candidate>& tokens) {
  std::sort(tokens.begin(), tokens.end(), likelier);
  double total = 0;
  for (const candidate& token : tokens) total += weight_of(token);
  const double needed = static_cast<double>(top_p) * total;
  double sum = 0;
  std::size_t num_kept = 0;
  while (num_kept < tokens.size() && sum < needed) sum += weight_of(tokens[num_kept++]);
  tokens.resize(num_kept);
}

/// The score down to which the chunk maxima are needed to reach the weight `needed`, if they reach it: a
/// nucleus usually has a few tokens of a large vocabulary. Bounds are drawer boundaries, so that the sums of
/// drawers do not depend on them.
std::optional<float> bound_of_maxima(std::span<const float> maxima, const row_scale& scale, double needed) {
  thread_local std::vector<candidate> largest;
  largest.clear();
  for (const float maximum : maxima)
    if (const float score = scale(maximum); score > minus_infinity) largest.push_back({score, {}});
  const drawers all = fill_drawers(largest);
  double sum = 0;
  for (std::size_t drawer = 0; drawer + 1 < num_drawers; ++drawer)
    if ((sum += all.weights[drawer]) >= needed) return static_cast<float>(drawer + 1) / -8.0F;
  return std::nullopt;
}

/// A score below which all tokens together probably weigh less than `spare`, estimated from one chunk of 64:
/// light tokens are many, so a sample is enough.
float bound_of_tail(std::span<const float> row, const row_scale& scale, double spare) {
  constexpr std::size_t stride = 64;
  constexpr double caution = 0.7;
  thread_local std::vector<candidate> sample;
  sample.clear();
  std::array<float, chunk_size> scores;
  for (std::size_t begin = 0; begin < row.size(); begin += stride * chunk_size) {
    const auto chunk = row.subspan(begin, std::min(chunk_size, row.size() - begin));
    scaled(chunk, scale, scores);
    for (std::size_t i = 0; i < chunk.size(); ++i)
      if (scores[i] > minus_infinity) sample.push_back({scores[i], {}});
  }
  const drawers all = fill_drawers(sample);
  double tail = 0;
  std::size_t drawer = num_drawers;
  while (drawer > 1 && (tail += all.weights[drawer - 1] * stride) < caution * spare) --drawer;
  return static_cast<float>(drawer) / -8.0F;
}

/// top-p over the whole row. Tokens below a bound are not read if those above it have enough weight.
/// Otherwise: all tokens lighter than (1 - top_p) * total / size together weigh less than (1 - top_p) *
/// total, so the run ends before them; half of that bound allows for rounding.
void keep_nucleus(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                  float top_p, std::vector<candidate>& out) {
  const double total = sum_of_exp(row, scale);
  const double needed = static_cast<double>(top_p) * total;
  const auto narrow = bound_of_maxima(maxima, scale, needed);
  gather(row, maxima, scale, narrow ? *narrow : bound_of_tail(row, scale, total - needed), out);
  if (keep_leading(needed, out)) return;
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
  if (rule.top_k > 0 && rule.top_k <= device::max_top_k) {
    gather_top(row, maxima, scale, rule.top_k, out);
    if (rule.top_p < 1.0F) keep_leading_of_few(rule.top_p, out);
  } else if (rule.top_k > 0 && rule.top_k < row.size()) {
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
