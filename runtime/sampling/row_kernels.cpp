#include "runtime/sampling/row_kernels.hpp"

#include "runtime/sampling/minus_infinity.hpp"
#include "runtime/sampling/vector_clones.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace paceline::sampling {

namespace {

constexpr std::size_t lanes = 16; ///< of the accumulators: a multiple of every vector width

/// Largest of `size` values, size <= chunk_size.
inline float largest_of(const float* values, std::size_t size) noexcept {
  std::array<float, lanes> best;
  best.fill(minus_infinity);
  if (size == chunk_size) {
    for (std::size_t i = 0; i < chunk_size; i += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const float x = values[i + lane];
        best[lane] = x > best[lane] ? x : best[lane];
      }
  } else {
    for (std::size_t i = 0; i < size; ++i) best[0] = values[i] > best[0] ? values[i] : best[0];
  }
  float largest = best[0];
  for (std::size_t lane = 1; lane < lanes; ++lane) largest = best[lane] > largest ? best[lane] : largest;
  return largest;
}

PACELINE_VECTOR_CLONES
void write_chunk_maxima(const float* row, std::size_t size, float* maxima) noexcept {
  for (std::size_t begin = 0; begin < size; begin += chunk_size)
    maxima[begin / chunk_size] = largest_of(row + begin, std::min(chunk_size, size - begin));
}

/// words[i] = first word of cohort i. One Philox counter a lane.
PACELINE_VECTOR_CLONES
void write_first_words(const noise_stream& noise, std::size_t num_cohorts, std::uint32_t* words) noexcept {
  const std::uint32_t position = noise.position.value;
  const std::uint32_t choice_index = noise.choice_index;
  const std::uint32_t decision = noise.decision();
  const philox_key key = noise.key();
  for (std::uint32_t i = 0; i < num_cohorts; ++i) {
    std::uint32_t c0 = position;
    std::uint32_t c1 = choice_index;
    std::uint32_t c2 = decision;
    std::uint32_t c3 = noise_cohort::counter_index(i);
    std::uint32_t k0 = key[0];
    std::uint32_t k1 = key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) { // philox4x32_10 in the form that compilers vectorise
      const std::uint64_t left = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t right = std::uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<std::uint32_t>(right >> 32) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(right);
      c2 = static_cast<std::uint32_t>(left >> 32) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(left);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    words[i] = c0;
  }
}

} // namespace

std::span<const float> chunk_maxima(std::span<const float> row) {
  thread_local std::vector<float> maxima;
  maxima.resize((row.size() + chunk_size - 1) / chunk_size);
  write_chunk_maxima(row.data(), row.size(), maxima.data());
  return maxima;
}

std::size_t argmax(std::span<const float> row) {
  const std::span<const float> maxima = chunk_maxima(row);
  const auto best = std::max_element(maxima.begin(), maxima.end());
  if (best == maxima.end() || *best == minus_infinity) return 0;
  const std::size_t begin = static_cast<std::size_t>(best - maxima.begin()) * chunk_size;
  return static_cast<std::size_t>(
      std::find(row.begin() + static_cast<std::ptrdiff_t>(begin), row.end(), *best) - row.begin());
}

std::uint32_t gumbel_race::own_word(std::uint32_t id) noexcept {
  if (quarter_ != id / 4) {
    quarter_ = id / 4;
    own_words_ = noise_->words(quarter_);
  }
  return own_words_[id % 4];
}

void gumbel_race::enter(double log_weight, token_id token) noexcept {
  const auto id = static_cast<std::uint32_t>(token.value);
  if (cohort_ != id / noise_stream::cohort_size) {
    cohort_ = id / noise_stream::cohort_size;
    cohort_words_ = noise_->words(noise_cohort::counter_index(cohort_));
  }
  if (!(log_weight + largest_gumbel_bound(cohort_words_[0]) >= best_))
    return; // the logarithms of this cohort are not needed
  compare(log_weight + noise_cohort(cohort_words_).gumbel(id % noise_stream::cohort_size, own_word(id)),
          token);
}

void gumbel_race::enter_chunk(std::span<const float> row, const row_scale& scale, std::size_t chunk,
                              float maximum, std::uint32_t first_word) noexcept {
  // Three tests: the cohort's bound, its exact largest noise, and each token's score with that noise.
  if (!(static_cast<double>(maximum) + largest_gumbel_bound(first_word) >= best_)) return;
  const noise_cohort cohort(*noise_, static_cast<std::uint32_t>(chunk));
  const double largest = cohort.largest_gumbel();
  if (!(static_cast<double>(maximum) + largest >= best_)) return;
  const std::size_t begin = chunk * chunk_size;
  const std::size_t end = std::min(begin + chunk_size, row.size());
  for (std::size_t i = begin; i < end; ++i) {
    const auto score = static_cast<double>(scale(row[i]));
    if (!(score + largest >= best_)) continue;
    const auto id = static_cast<std::uint32_t>(i);
    compare(score + cohort.gumbel(id % noise_stream::cohort_size, own_word(id)),
            token_id{static_cast<std::int32_t>(id)});
  }
}

token_id gumbel_argmax(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                       const noise_stream& noise) {
  thread_local std::vector<std::uint32_t> first_words;
  first_words.resize(maxima.size());
  write_first_words(noise, maxima.size(), first_words.data());
  gumbel_race race(noise);
  // Starts with the likeliest chunk: its value is a bound that most other chunks cannot reach.
  const auto likeliest =
      static_cast<std::size_t>(std::max_element(maxima.begin(), maxima.end()) - maxima.begin());
  const auto enter = [&](std::size_t chunk) {
    race.enter_chunk(row, scale, chunk, scale(maxima[chunk]), first_words[chunk]);
  };
  if (!maxima.empty()) enter(likeliest);
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk)
    if (chunk != likeliest) enter(chunk);
  return race.winner();
}

token_id gumbel_argmax(std::span<const float> scores, const noise_stream& noise) {
  return gumbel_argmax(scores, chunk_maxima(scores), {}, noise);
}

token_id gumbel_argmax(std::span<const candidate> tokens, const noise_stream& noise) noexcept {
  gumbel_race race(noise);
  for (const candidate& entry : tokens) race.enter(static_cast<double>(entry.score), entry.token);
  return race.winner();
}

} // namespace paceline::sampling
