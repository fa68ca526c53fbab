#include "runtime/sampling/row_kernels.hpp"

#include "runtime/base/portable_math.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

// The loops below are plain C++ that compilers turn into vector code; on x86 they are compiled once per
// vector width and chosen at load time. Without contraction (CMake sets it) all versions give the same bits.
// Sanitizers and the loader's resolvers do not mix.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)
#define PACELINE_VECTOR_CLONES [[gnu::target_clones("default", "avx2", "avx512f")]]
#else
#define PACELINE_VECTOR_CLONES
#endif

namespace paceline::sampling {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr std::size_t lanes = 16; ///< of the accumulators: a multiple of every vector width

float larger(float a, float b) noexcept { return a > b ? a : b; }

} // namespace

PACELINE_VECTOR_CLONES
float make_ordered(std::span<float> row) noexcept {
  std::array<float, lanes> best;
  best.fill(minus_infinity);
  float* const values = row.data();
  const std::size_t size = row.size();
  const auto ordered = [](float x) {
    x = x == x ? x : minus_infinity;
    return x < std::numeric_limits<float>::max() ? x : std::numeric_limits<float>::max();
  };
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const float x = ordered(values[i + lane]);
      values[i + lane] = x;
      best[lane] = x > best[lane] ? x : best[lane];
    }
  for (; i < size; ++i) {
    values[i] = ordered(values[i]);
    best[0] = larger(values[i], best[0]);
  }
  return *std::max_element(best.begin(), best.end());
}

PACELINE_VECTOR_CLONES
void shift_and_divide(std::span<float> row, float shift, float divisor) noexcept {
  float* const values = row.data();
  const std::size_t size = row.size();
  for (std::size_t i = 0; i < size; ++i) values[i] = (values[i] - shift) / divisor;
}

PACELINE_VECTOR_CLONES
double sum_of_exp(std::span<const float> row, float shift) noexcept {
  std::array<double, lanes> sums{};
  const float* const values = row.data();
  const std::size_t size = row.size();
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(portable_exp(values[i + lane] - shift));
  for (; i < size; ++i) sums[i % lanes] += static_cast<double>(portable_exp(values[i] - shift));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

PACELINE_VECTOR_CLONES
void chunk_maxima(std::span<const float> row, std::span<float> maxima) noexcept {
  const float* const values = row.data();
  const std::size_t size = row.size();
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk) {
    const std::size_t begin = chunk * chunk_size;
    std::array<float, lanes> best;
    best.fill(minus_infinity);
    if (begin + chunk_size <= size) {
      for (std::size_t i = 0; i < chunk_size; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          const float x = values[begin + i + lane];
          best[lane] = x > best[lane] ? x : best[lane];
        }
    } else {
      for (std::size_t i = begin; i < size; ++i) best[0] = values[i] > best[0] ? values[i] : best[0];
    }
    float largest = best[0];
    for (std::size_t lane = 1; lane < lanes; ++lane) largest = best[lane] > largest ? best[lane] : largest;
    maxima[chunk] = largest;
  }
}

std::size_t argmax(std::span<const float> row) noexcept {
  float best = minus_infinity;
  std::size_t index = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += chunk_size) {
    const auto chunk = row.subspan(begin, std::min(chunk_size, row.size() - begin));
    float largest = minus_infinity;
    chunk_maxima(chunk, {&largest, 1});
    if (!(largest > best)) continue;
    best = largest;
    index = begin + static_cast<std::size_t>(std::find(chunk.begin(), chunk.end(), largest) - chunk.begin());
  }
  return index;
}

namespace {

/// The words of `num_words` tokens from `first_token` on; both multiples of 4.
PACELINE_VECTOR_CLONES
void fill_words(const noise_stream& noise, std::uint32_t first_token, std::uint32_t* words) noexcept {
  constexpr std::size_t width = chunk_size / 4;
  std::array<std::uint32_t, width> c0;
  std::array<std::uint32_t, width> c1;
  std::array<std::uint32_t, width> c2;
  std::array<std::uint32_t, width> c3;
  for (std::size_t i = 0; i < width; ++i) {
    c0[i] = noise.position.value;
    c1[i] = noise.choice_index;
    c2[i] = static_cast<std::uint32_t>(noise.purpose);
    c3[i] = first_token / 4 + static_cast<std::uint32_t>(i);
  }
  philox_key key = noise.key();
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::uint64_t left = std::uint64_t{0xD2511F53U} * c0[i];
      const std::uint64_t right = std::uint64_t{0xCD9E8D57U} * c2[i];
      c0[i] = static_cast<std::uint32_t>(right >> 32) ^ c1[i] ^ key[0];
      c1[i] = static_cast<std::uint32_t>(right);
      c2[i] = static_cast<std::uint32_t>(left >> 32) ^ c3[i] ^ key[1];
      c3[i] = static_cast<std::uint32_t>(left);
    }
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  for (std::size_t i = 0; i < width; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

/// A word below the result belongs to a variate below `needed`: gumbel(u) >= g means u >= exp(-exp(-g)) >= 1
/// - exp(-g). The slack of 1e-3 exceeds every rounding on the way.
std::uint32_t smallest_useful_word(double needed) noexcept {
  const double miss = static_cast<double>(portable_exp(static_cast<float>(1e-3 - needed)));
  const double bound = (1.0 - miss) * 0x1p32 - 2.0;
  return bound > 0 ? static_cast<std::uint32_t>(bound) : 0;
}

struct leader {
  double value = -std::numeric_limits<double>::infinity();
  std::size_t token = 0;
};

/// Lets the tokens of one chunk compete against `best`, in any order of chunks.
void compete(std::span<const float> scores, std::size_t chunk, float chunk_maximum, const noise_stream& noise,
             leader& best) {
  const double needed = best.value - static_cast<double>(chunk_maximum);
  if (!(needed <= largest_gumbel)) return; // also a chunk of removed tokens
  const std::uint32_t threshold = smallest_useful_word(needed);
  const std::size_t begin = chunk * chunk_size;
  const std::size_t count = std::min(chunk_size, scores.size() - begin);
  std::array<std::uint32_t, chunk_size> words;
  fill_words(noise, static_cast<std::uint32_t>(begin), words.data());
  for (std::size_t i = 0; i < count; ++i) {
    if (words[i] < threshold) continue;
    const double value = static_cast<double>(scores[begin + i]) + gumbel_of(words[i]);
    if (value > best.value || (value == best.value && begin + i < best.token)) best = {value, begin + i};
  }
}

} // namespace

token_id gumbel_argmax(std::span<const float> scores, const noise_stream& noise) {
  thread_local std::vector<float> maxima;
  maxima.resize(num_chunks(scores.size()));
  chunk_maxima(scores, maxima);
  leader best;
  if (maxima.empty()) return token_id{0};
  // The most likely chunk first: it sets a bar that most others cannot reach.
  const std::size_t first = argmax(maxima);
  if (maxima[first] == minus_infinity) return token_id{0};
  compete(scores, first, maxima[first], noise, best);
  for (std::size_t chunk = 0; chunk < maxima.size(); ++chunk)
    if (chunk != first) compete(scores, chunk, maxima[chunk], noise, best);
  return token_id{static_cast<std::int32_t>(best.token)};
}

token_id gumbel_argmax(std::span<const candidate> tokens, const noise_stream& noise) noexcept {
  double best_value = -std::numeric_limits<double>::infinity();
  token_id best;
  for (const candidate& entry : tokens) {
    if (!(entry.score > minus_infinity)) continue;
    const double value = static_cast<double>(entry.score) + noise.gumbel(entry.token);
    if (value > best_value || (value == best_value && entry.token < best)) {
      best_value = value;
      best = entry.token;
    }
  }
  return best;
}

} // namespace paceline::sampling
