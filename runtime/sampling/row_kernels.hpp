#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/sampling/row_weights.hpp"

#include <cstddef>
#include <limits>
#include <span>

/// Passes over one row of the vocabulary: what every sampled token pays, whatever its parameters. Results are
/// defined by the element order alone, so they are the same bits at every instruction set.
namespace paceline::sampling {

/// A token that is still in the race.
struct candidate {
  float score = 0; ///< natural logarithm of its probability, up to a constant of the row
  token_id token;
};

/// Tokens a chunk: the unit in which rows are searched, and a noise cohort.
inline constexpr std::size_t chunk_size = noise_stream::cohort_size;

/// The largest value of every chunk, -infinity for a chunk of NaN. Reads the row once; everything else can
/// then skip chunks. Valid until the calling thread's next call.
std::span<const float> chunk_maxima(std::span<const float> row);

/// Lowest index of the largest value; NaN never wins; 0 for a hopeless row.
std::size_t argmax(std::span<const float> row);

/// A Gumbel-max draw in progress: the token with the largest log-weight + noise wins, ties go to the lowest
/// id, whatever the order of entry.
class gumbel_race {
 public:
  explicit gumbel_race(const noise_stream& noise) noexcept : noise_(&noise) {}

  /// One token. A weight of -infinity never wins.
  void enter(double log_weight, token_id token) noexcept;
  /// The tokens of chunk `chunk` of a row, whose largest score is `maximum`; `first_word` is the first of the
  /// cohort's.
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
  // The words used last: neighbours share them.
  std::uint32_t cohort_ = none;
  philox_counter cohort_words_ = {};
  std::uint32_t quarter_ = none;
  philox_counter own_words_ = {};
};

/// argmax over i of double(scale(row[i])) + noise.gumbel(i), ties to the lowest id: a sample of
/// softmax(scale(row)). Noise is computed only for tokens that can still win, which does not change the
/// result by a bit. `maxima` are the row's chunk_maxima. 0 for a hopeless row.
token_id gumbel_argmax(std::span<const float> row, std::span<const float> maxima, const row_scale& scale,
                       const noise_stream& noise);
token_id gumbel_argmax(std::span<const float> scores, const noise_stream& noise);
/// The same over a few tokens, in any order; equal to the above over a row in which all others are -infinity.
token_id gumbel_argmax(std::span<const candidate> tokens, const noise_stream& noise) noexcept;

} // namespace paceline::sampling
