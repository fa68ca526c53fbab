#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/philox.hpp"

#include <cstddef>
#include <span>

/// Passes over one row of the vocabulary: what every sampled token pays, whatever its parameters. Results are
/// defined by the element order alone, so they are the same bits at every instruction set.
namespace paceline::sampling {

/// A token that is still in the race.
struct candidate {
  float score = 0; ///< natural logarithm of its probability, up to a constant of the row
  token_id token;
};

/// Order of likelihood: higher score first, ties to the lowest id.
inline bool likelier(const candidate& a, const candidate& b) noexcept {
  return a.score > b.score || (a.score == b.score && a.token < b.token);
}

/// Tokens a chunk of a row: the unit of early rejection.
inline constexpr std::size_t chunk_size = 64;
inline constexpr std::size_t num_chunks(std::size_t row_size) noexcept {
  return (row_size + chunk_size - 1) / chunk_size;
}

/// Replaces NaN by -infinity and +infinity by the largest finite value. Returns the largest value, -infinity
/// for an empty or hopeless row.
float make_ordered(std::span<float> row) noexcept;

/// row[i] = (row[i] - shift) / divisor. Differences first: they cannot overflow upwards where shift is the
/// maximum.
void shift_and_divide(std::span<float> row, float shift, float divisor) noexcept;

/// Lowest index of the largest value; NaN never wins; 0 for a hopeless row.
std::size_t argmax(std::span<const float> row) noexcept;

/// Sum over the row of portable_exp(row[i] - shift), in double, in an order fixed by the row's length.
double sum_of_exp(std::span<const float> row, float shift) noexcept;

/// maxima[c] = largest value of chunk c. `maxima` holds num_chunks(row.size()).
void chunk_maxima(std::span<const float> row, std::span<float> maxima) noexcept;

/// argmax over i of double(scores[i]) + noise.gumbel(i), ties to the lowest id: a sample of softmax(scores).
/// Noise is computed only for tokens that can still win, which does not change the result by a bit. 0 for a
/// hopeless row.
token_id gumbel_argmax(std::span<const float> scores, const noise_stream& noise);
/// The same over a few tokens, in any order; equal to the above over a row in which all others are -infinity.
token_id gumbel_argmax(std::span<const candidate> tokens, const noise_stream& noise) noexcept;

} // namespace paceline::sampling
