#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/portable_math.hpp"

#include <array>
#include <cstdint>

namespace paceline {

/// What a random number decides. Each purpose has a separate stream, so a number is never used for two
/// decisions.
enum class noise_purpose : std::uint32_t {
  draft = 1, ///< drawing a draft token (rules `rejection`, `block` and `lenient`)
  accept,    ///< keeping or rejecting it
  residual,  ///< drawing the recovered token
  target,    ///< the target's own sample: plain decoding, rule `coupled`, bonus tokens
  scheduler, ///< simulated schedules
  fault,     ///< simulated faults
  proposal,  ///< guesses of a drafter without a model; the seeds of drafters are separate from those of
             ///< requests
};

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

/// Philox4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section
/// 3.3): for every key a bijection of the counter. Each call gives four independent 32-bit words.
constexpr philox_counter philox4x32_10(philox_counter counter, philox_key key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {
        static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(right),
        static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(left)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// (word + 1/2) / 2^32, exactly: in the open interval (0, 1) for every word. The type is double because a
/// float would round the largest results to 1.
constexpr double uniform_of(std::uint32_t word) noexcept {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

/// Standard exponential variate -log(u) of a word: finite and positive for every word; falls as the word
/// grows.
constexpr double exponential_of(std::uint32_t word) noexcept { return -portable_log(uniform_of(word)); }

/// The random numbers of one decision of one request: a pure function of (seed, position, choice, purpose,
/// place, index).
///
/// A decision among tokens gives each token id a standard Gumbel variate -log(arrival), where arrivals are
/// independent standard exponentials, and chooses the token with the largest sum of log-probability and
/// variate (the Gumbel-max trick). Arrivals are drawn for cohorts of 64 ids at a time, by the memoryless
/// property: the first arrival in a cohort is an exponential divided by 64 and belongs to a uniformly chosen
/// member; each other member arrives later by an exponential of its own. One word therefore bounds the
/// variates of 64 tokens, so a draw over a vocabulary computes few variates (docs/decisions/0004).
struct noise_stream {
  static constexpr std::uint32_t cohort_size = 64;

  std::uint64_t seed = 0;
  token_position position = {};
  std::uint32_t choice_index = 0;
  noise_purpose purpose = noise_purpose::target;
  /// Distinguishes several draws for one purpose at one position (speculation::draft_place); below 2^24.
  std::uint32_t place = 0;

  constexpr philox_key key() const noexcept {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  /// The counter word that holds purpose and place.
  constexpr std::uint32_t decision() const noexcept {
    return static_cast<std::uint32_t>(purpose) | place << 8;
  }
  constexpr philox_counter words(std::uint32_t index) const noexcept {
    return philox4x32_10({position.value, choice_index, decision(), index}, key());
  }
  /// A uniform number, for a decision other than the choice of a token.
  constexpr double uniform() const noexcept { return uniform_of(words(0)[0]); }

  double gumbel(token_id token) const noexcept;
};

/// The noise of the 64 tokens of one cohort. In the Philox counter, the index of a token's word is token id /
/// 4; the words of cohorts use a separate range of indices (`counter_index`).
class noise_cohort {
 public:
  static constexpr std::uint32_t counter_index(std::uint32_t cohort) noexcept { return 0x80000000U | cohort; }

  constexpr noise_cohort(const noise_stream& stream, std::uint32_t cohort) noexcept
      : noise_cohort(stream.words(counter_index(cohort))) {}
  /// `words` are those of `counter_index(cohort)`.
  constexpr explicit noise_cohort(const philox_counter& words) noexcept
      : first_arrival_(first_arrival_of(words[0])), first_(words[1] % noise_stream::cohort_size) {}

  /// Gumbel variate of the member whose word is `word`.
  constexpr double gumbel(std::uint32_t member, std::uint32_t word) const noexcept {
    return -portable_log(member == first_ ? first_arrival_ : first_arrival_ + exponential_of(word));
  }
  /// The largest variate in the cohort.
  constexpr double largest_gumbel() const noexcept { return -portable_log(first_arrival_); }

 private:
  static constexpr double first_arrival_of(std::uint32_t word) noexcept {
    return exponential_of(word) / noise_stream::cohort_size;
  }

  double first_arrival_;
  std::uint32_t first_;
};

/// An upper bound of `largest_gumbel` for the cohort whose words start with `first_word`, from a table. For
/// first_word > 2^31 it is at most 0.14 too large.
double largest_gumbel_bound(std::uint32_t first_word) noexcept;

} // namespace paceline
