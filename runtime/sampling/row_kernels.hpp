#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/sampling/row_weights.hpp"

#include <cstddef>
#include <limits>
#include <span>

/// Kernels over one row of logits or scores that every sampled token needs, whatever the sampling parameters.
/// Results are defined by the order of the elements alone, so they have the same bits on every instruction
/// set.
namespace paceline::sampling {

/// A token that truncation has not removed.
struct candidate {
  float score = 0; ///< natural logarithm of its probability, up to a constant for the row
  token_id token;
};

/// Number of tokens in a chunk: searches skip whole chunks, and each chunk is a noise cohort (noise_stream).
inline constexpr std::size_t chunk_size = noise_stream::cohort_size;

/// The largest value of each chunk; -infinity for a chunk of NaN. Reads the row once, so that later steps can
/// skip chunks. Valid until the calling thread's next call.
std::span<const float> chunk_maxima(std::span<const float> row);

/// Lowest index of the largest value; NaN is ignored; 0 if no value is finite.
std::size_t argmax(std::span<const float> row);

/// An incremental Gumbel-max draw: the token with the largest log-weight + noise wins, with ties to the
/// lowest id, independent of the order of `enter` calls.
class gumbel_race {
 public:
  explicit gumbel_race(const noise_stream& noise) noexcept : noise_(&noise) {}

  /// Adds one token. A log-weight of -infinity never wins.
  void enter(double log_weight, token_id token) noexcept;
  /// Adds the tokens of chunk `chunk` of a row. `maximum` is the largest score of the chunk, `first_word` the
  /// first word of the chunk's noise.
  void enter_chunk(std::span<const float> row, const row_scale& scale, std::size_t chunk, float maximum,
                   std::uint32_t first_word) noexcept;
  token_id winner() const noexcept { return winner_; }

 private:
  void compare(double value, token_id token) noexcept {
    if (value > best_ || (value == best_ && token < winner_)) {
      best_ = value;
      winner_ = token;
    }
  }
  std::uint32_t own_word(std::uint32_t id) noexcept;

  static constexpr std::uint32_t none = 0xFFFFFFFFU;

  const noise_stream* noise_;
  double best_ = std::numeric_limits<double>::lowest();
  token_id winner_;
  // The last words of noise, which neighbouring tokens share.
  std::uint32_t cohort_ = none;
  philox_counter cohort_words_ = {};
  std::uint32_t quarter_ = none;
  philox_counter own_words_ = {};
};

/// argmax over i of double(scale(row[i])) + noise.gumbel(i), ties to the lowest id: a sample of
/// softmax(scale(row)). Computes noise only for tokens that can still win, which does not change the result.
/// `maxima` are the row's chunk_maxima. 0 if no value is finite.
token_id gumbel_argmax(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                       const noise_stream& noise);
token_id gumbel_argmax(std::span<const float> scores, const noise_stream& noise);
/// The same over a few tokens in any order, as if they were a row in which all other tokens have -infinity.
token_id gumbel_argmax(std::span<const candidate> tokens, const noise_stream& noise) noexcept;

} // namespace paceline::sampling
