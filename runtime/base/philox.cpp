#include "runtime/base/philox.hpp"

#include <algorithm>
#include <bit>

namespace paceline {

namespace {

/// Words are divided into buckets by the leading four bits of their distance t to the largest word: 8 buckets
/// in each octave, so that the bound is as tight near u = 1, where the winners are, as anywhere else.
constexpr std::uint32_t bucket_of(std::uint32_t word) noexcept {
  const std::uint32_t distance = std::max(~word, 8U); // the nine largest words share a bucket
  const auto octave = static_cast<std::uint32_t>(std::bit_width(distance)) - 4;
  return octave * 8 + ((distance >> octave) & 7U);
}

constexpr std::uint32_t num_buckets = bucket_of(0) + 1;

constexpr std::array<double, num_buckets> make_bounds() {
  std::array<double, num_buckets> bounds{};
  for (std::uint32_t bucket = 0; bucket < num_buckets; ++bucket) {
    const std::uint32_t smallest_distance = bucket == 0 ? 0 : (8U + bucket % 8) << (bucket / 8);
    const double first_arrival = exponential_of(~smallest_distance) / noise_stream::cohort_size;
    bounds[bucket] = -portable_log(first_arrival) + 1e-9; // above the rounding errors of the variates
  }
  return bounds;
}

constexpr std::array<double, num_buckets> bounds = make_bounds();

} // namespace

double largest_gumbel_bound(std::uint32_t first_word) noexcept { return bounds[bucket_of(first_word)]; }

double noise_stream::gumbel(token_id token) const noexcept {
  const auto id = static_cast<std::uint32_t>(token.value);
  return noise_cohort(*this, id / cohort_size).gumbel(id % cohort_size, words(id / 4)[id % 4]);
}

} // namespace paceline
