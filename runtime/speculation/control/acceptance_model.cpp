#include "runtime/speculation/control/acceptance_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paceline::speculation {

namespace {

constexpr double table_memory = 0.998;  ///< of a cell, a try
constexpr double request_memory = 0.98; ///< of a request, a try
/// Of the log-odds by which requests differ, whose variance is about 0.8. By half of it a request is thought,
/// as what it said is forgotten, to be like the others.
constexpr double prior_precision = 1.25, prior_pull = 0.5 * prior_precision;
constexpr double most_shift = 6.0; ///< a factor of 400 of the odds
/// Before anything is known: a drafter that says nothing of itself is tried, but not deeply; else its word is
/// taken.
constexpr double first_guess_weight = 2;
constexpr double first_guess(std::uint8_t signal) { return signal == 0 ? 0.5 : 0.35 + 0.085 * signal; }

} // namespace

std::uint32_t acceptance_table::index(node_place at) noexcept {
  const std::uint32_t signal = std::min<std::uint32_t>(at.signal, num_signals - 1);
  const std::uint32_t depth =
      std::min<std::uint32_t>(static_cast<std::uint32_t>(std::bit_width(at.depth)), num_depths - 1);
  return (signal * num_depths + depth) * num_ranks + std::min(at.rank, num_ranks - 1);
}

void acceptance_table::count(node_place at, bool right) noexcept {
  cell& c = cells_[index(at)];
  c.right = c.right * table_memory + (right ? 1 : 0);
  c.tries = c.tries * table_memory + 1;
}

double acceptance_table::probability(node_place at) const noexcept {
  // Later siblings share what the earlier ones leave.
  return probability(at, first_guess(std::min<std::uint8_t>(at.signal, num_signals - 1)) / (1.0 + at.rank));
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

double request_bias::apply(double probability) const noexcept {
  constexpr double edge = 1e-4;
  const double p = std::clamp(probability, edge, 1.0 - edge);
  return 1.0 / (1.0 + (1.0 - p) / p * std::exp(-shift_));
}

} // namespace paceline::speculation
