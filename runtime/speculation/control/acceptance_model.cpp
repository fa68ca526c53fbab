#include "runtime/speculation/control/acceptance_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paceline::speculation {

namespace {

constexpr double table_memory = 0.998;  ///< share of a cell's counts that is kept at each try
constexpr double request_memory = 0.99; ///< share of a request's information that is kept at each try
/// Each request has a shift of the log-odds. The shifts of requests have a variance of about 0.5, whose
/// inverse is prior_precision. prior_pull moves a request's shift back towards 0 as its older observations
/// are forgotten.
constexpr double prior_precision = 2.0, prior_pull = 0.3 * prior_precision;
constexpr double most_shift = 6.0; ///< in log-odds; this multiplies the odds by 400
/// A draft must still pay if the shift is lower than estimated by this number of its standard deviations.
/// Drafts are scored whether or not they are verified, so waiting for certainty costs little.
constexpr double caution = 0.5;

double shifted(double probability, double log_odds) {
  constexpr double edge = 1e-4;
  const double p = std::clamp(probability, edge, 1.0 - edge);
  return 1.0 / (1.0 + (1.0 - p) / p * std::exp(-log_odds));
}
/// The number of tries for which a first guess counts, and the guess by signal. A drafter without signals
/// (signal 0) is tried, but not deeply. Otherwise the signal determines the guess.
constexpr double first_guess_weight = 2;
constexpr double first_guess(std::uint8_t signal) { return signal == 0 ? 0.5 : 0.35 + 0.085 * signal; }
/// For a drafter with known first acceptance (`drafter_traits::first_acceptance`): the number of tries for
/// which it counts, and by how much the log-odds rise with each further group of depths. Deeper tokens are
/// more reliable because all tokens above them were right.
constexpr double prior_weight = 8, odds_by_depth = 0.5;

} // namespace

acceptance_table::acceptance_table(const prior& first) noexcept : first_(first) {
  for (float& share : first_) share = share > 0 ? std::min(share, 0.999F) : 0; // NaN means unknown
}

std::uint32_t acceptance_table::depth_group(std::uint32_t depth) noexcept {
  return std::min<std::uint32_t>(static_cast<std::uint32_t>(std::bit_width(depth)), num_depths - 1);
}

std::uint32_t acceptance_table::index(node_place at) noexcept {
  const std::uint32_t signal = std::min<std::uint32_t>(at.signal, num_signals - 1);
  return (signal * num_depths + depth_group(at.depth)) * num_ranks + std::min(at.rank, num_ranks - 1);
}

void acceptance_table::count(node_place at, bool right) noexcept {
  cell& c = cells_[index(at)];
  c.right = c.right * table_memory + (right ? 1 : 0);
  c.tries = c.tries * table_memory + 1;
}

double acceptance_table::probability(node_place at) const noexcept {
  const auto signal = std::min<std::uint8_t>(at.signal, num_signals - 1);
  const double share = 1.0 / (1.0 + at.rank); // later siblings share what the earlier ones leave
  const double known = first_[signal];
  if (known == 0) return probability(at, share * first_guess(signal));
  const double odds = known / (1 - known) * std::exp(odds_by_depth * depth_group(at.depth));
  const cell& c = cells_[index(at)];
  return (c.right + prior_weight * share * odds / (1 + odds)) / (c.tries + prior_weight);
}

double acceptance_table::probability(node_place at, double guess) const noexcept {
  const cell& c = cells_[index(at)];
  return (c.right + first_guess_weight * guess) / (c.tries + first_guess_weight);
}

void request_bias::count(double expected, bool right) noexcept {
  const double now = apply(expected);
  information_ = information_ * request_memory + now * (1.0 - now);
  const double precision = information_ + prior_precision;
  shift_ *= 1.0 - (1.0 - request_memory) * prior_pull / precision;
  shift_ += ((right ? 1.0 : 0.0) - now) / precision;
  shift_ = std::clamp(shift_, -most_shift, most_shift);
}

double request_bias::apply(double probability) const noexcept { return shifted(probability, shift_); }

double request_bias::at_least(double probability) const noexcept {
  return shifted(probability, shift_ - caution / std::sqrt(information_ + prior_precision));
}

} // namespace paceline::speculation
