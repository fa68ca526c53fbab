#pragma once

#include "runtime/base/ids.hpp"

#include <array>
#include <cstdint>

namespace paceline {

/// What a random number decides. Each purpose is a stream of its own: a number is never used for two
/// decisions.
enum class noise_purpose : std::uint32_t {
  draft = 1, ///< drawing a draft token (rule `rejection`)
  accept,    ///< keeping or rejecting it
  residual,  ///< drawing the recovered token
  target,    ///< the target's own sample: plain decoding, rule `coupled`, bonus tokens
  scheduler, ///< simulated schedules
  fault,     ///< simulated faults
};

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

/// Philox4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
/// section 3.3): a bijection of the counter for every key. Four independent 32-bit words a call.
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

/// (word + 1/2) / 2^32, exactly: in the open interval (0, 1) for every word. A float could not hold the
/// largest ones without rounding to 1, so uniforms stay double.
constexpr double uniform_of(std::uint32_t word) noexcept {
  return (static_cast<double>(word) + 0.5) * 0x1p-32;
}

/// Standard Gumbel variate -log(-log(u)) of a word, the same bits on every machine; grows with the word.
double gumbel_of(std::uint32_t word) noexcept;
/// No word's variate is larger: -log(-log(1 - 2^-33)) = 22.87.
inline constexpr double largest_gumbel = 22.875;

/// The random numbers of one decision of one request: a pure function of (seed, position, choice, purpose,
/// index), whatever else runs. Index = a token id of the target vocabulary where each token has its own
/// number, else 0.
struct noise_stream {
  std::uint64_t seed = 0;
  token_position position = {};
  std::uint32_t choice_index = 0;
  noise_purpose purpose = noise_purpose::target;

  constexpr philox_key key() const noexcept {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  /// Words of the indices 4 * `quarter` .. 4 * `quarter` + 3.
  constexpr philox_counter words(std::uint32_t quarter) const noexcept {
    return philox4x32_10({position.value, choice_index, static_cast<std::uint32_t>(purpose), quarter}, key());
  }
  constexpr std::uint32_t word(std::uint32_t index) const noexcept { return words(index / 4)[index % 4]; }
  constexpr double uniform(std::uint32_t index = 0) const noexcept { return uniform_of(word(index)); }
  double gumbel(token_id token) const noexcept {
    return gumbel_of(word(static_cast<std::uint32_t>(token.value)));
  }
};

} // namespace paceline
