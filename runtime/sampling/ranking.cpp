#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/minus_infinity.hpp"
#include "runtime/sampling/pipeline.hpp"
#include "runtime/sampling/row_kernels.hpp"

#include <algorithm>
#include <limits>

// Ranks the tokens after the chosen one, for draft trees.

namespace paceline::sampling {

namespace {

/// Number of further tokens in the normalisation of weights under noise. Noise puts a few tokens far above
/// the others, so the sum over these approximates the sum over the vocabulary.
constexpr std::size_t num_rivals = 8;

struct contender {
  double key; ///< score + noise
  token_id token;
};
bool ahead(const contender& a, const contender& b) noexcept {
  return a.key > b.key || (a.key == b.key && a.token < b.token);
}

/// The best `count` entries, best first.
class contest {
 public:
  explicit contest(std::size_t count) : count_(count) { best_.reserve(count + 1); }

  double bar() const noexcept {
    return best_.size() < count_ ? std::numeric_limits<double>::lowest() : best_.back().key;
  }
  void enter(const contender& one) {
    if (best_.size() == count_ && !ahead(one, best_.back())) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), one, ahead), one);
    if (best_.size() > count_) best_.pop_back();
  }
  const std::vector<contender>& best() const noexcept { return best_; }

 private:
  std::size_t count_;
  std::vector<contender> best_;
};

/// The `count` largest values of score + noise. A cohort is examined only if its best score plus its largest
/// noise can enter the result.
std::vector<contender> best_under_noise(std::span<const float> scores, const noise_stream& noise,
                                        std::size_t count) {
  contest race(count);
  const std::span<const float> maxima = chunk_maxima(scores);
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk) {
    if (maxima[chunk] == minus_infinity) continue;
    const philox_counter words = noise.words(noise_cohort::counter_index(static_cast<std::uint32_t>(chunk)));
    if (!(static_cast<double>(maxima[chunk]) + largest_gumbel_bound(words[0]) >= race.bar())) continue;
    const noise_cohort cohort(words);
    const double largest = cohort.largest_gumbel();
    const std::size_t begin = chunk * chunk_size;
    const std::size_t end = std::min(begin + chunk_size, scores.size());
    philox_counter own_words{};
    for (std::size_t i = begin, known = end; i < end; ++i) {
      const auto score = static_cast<double>(scores[i]);
      if (!(scores[i] > minus_infinity) || !(score + largest >= race.bar())) continue;
      const auto id = static_cast<std::uint32_t>(i);
      if (known != i / 4) own_words = noise.words(id / 4);
      known = i / 4;
      race.enter({score + cohort.gumbel(id % noise_stream::cohort_size, own_words[id % 4]),
                  token_id{static_cast<std::int32_t>(id)}});
    }
  }
  return race.best();
}

} // namespace

void pipeline::rank_choices(std::span<float> logits, const row_context& row, std::size_t count,
                            std::vector<ranked_token>& out) const {
  if (greedy()) return rank_likeliest(logits, row, count, out);
  out.clear();
  if (count == 0 || !process(logits, row)) return;
  const auto best = best_under_noise(logits, noise(noise_purpose::target, row.position), count + num_rivals);
  const auto weight = [&](const contender& one) {
    return static_cast<double>(portable_exp(static_cast<float>(one.key - best.front().key)));
  };
  double total = 0;
  for (const contender& one : best) total += weight(one);
  for (std::size_t i = 0; i < std::min(count, best.size()); ++i)
    out.push_back({best[i].token, static_cast<float>(weight(best[i]) / total)});
}

void pipeline::rank_likeliest(std::span<float> logits, const row_context& row, std::size_t count,
                              std::vector<ranked_token>& out) const {
  out.clear();
  if (greedy()) {
    edit(logits, row);
  } else if (!process(logits, row)) {
    return;
  }
  thread_local std::vector<candidate> best;
  select_top(logits, count, best);
  if (best.empty()) return;
  const float shift = best.front().score;
  const double total = sum_of_exp(logits, {.shift = shift});
  for (const candidate& one : best)
    out.push_back(
        {one.token, static_cast<float>(static_cast<double>(portable_exp(one.score - shift)) / total)});
}

} // namespace paceline::sampling
