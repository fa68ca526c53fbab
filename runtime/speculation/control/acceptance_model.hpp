#pragma once

#include <array>
#include <cstdint>

namespace paceline::speculation {

/// What is known about a draft token before verification. `signal`: the drafter's confidence, 0 (lowest, or
/// not reported) to 7 (highest). Each drafter defines its own scale; `acceptance_table` learns what a value
/// means. `depth`: level in the tree, 0 for children of the root. `rank`: number of siblings before it.
struct node_place {
  std::uint8_t signal = 0;
  std::uint32_t depth = 0;
  std::uint32_t rank = 0;
};

/// The place of a chain's token at depth `level`, with signal 0.
constexpr node_place place_of_level(std::uint32_t level) { return {.signal = 0, .depth = level, .rank = 0}; }

/// Estimates, for one drafter over all requests, how often a draft token is right, that is, equals the token
/// committed at its position. The estimate is conditional on the parent being right and the earlier siblings
/// being wrong. There is one pair of counts for each (signal, depth group, rank group); each observation
/// multiplies the earlier counts of its pair by 0.998. Not thread-safe. See docs/auto.md.
class acceptance_table {
 public:
  static constexpr std::uint32_t num_signals = 8;
  /// [signal]: prior probability that a draft token with depth 0 and rank 0 is right; 0 = not known. It
  /// weighs as much as 8 observations. The priors of other depths and ranks are derived from it.
  using prior = std::array<float, num_signals>;

  explicit acceptance_table(const prior& first = {}) noexcept;
  void count(node_place at, bool right) noexcept;
  double probability(node_place at) const noexcept; ///< in (0, 1)
  /// Estimates the same probability with `guess` in place of the prior; it weighs as much as 2 observations.
  double probability(node_place at, double guess) const noexcept;

 private:
  static constexpr std::uint32_t num_depths = 5; ///< 0, 1, 2-3, 4-7, deeper
  static constexpr std::uint32_t num_ranks = 3;  ///< 0, 1, later
  struct cell {
    double right = 0;
    double tries = 0;
  };
  static std::uint32_t depth_group(std::uint32_t depth) noexcept;
  static std::uint32_t index(node_place at) noexcept;
  prior first_;
  std::array<cell, num_signals * num_depths * num_ranks> cells_{};
};

/// How much better or worse one drafter's drafts are for one request than its table says. This is a logistic
/// regression with one intercept (`shift_`); the table's log-odds are the offset. Each observation makes one
/// Newton step. With each observation, the Fisher information of the earlier ones decays by the factor 0.99.
/// A normal prior with mean 0 is added in each step. It bounds the step and slowly pulls the intercept
/// towards 0. Not thread-safe.
class request_bias {
 public:
  /// Adds an observation: the table gave probability `expected` (uncorrected), and the token was `right`.
  void count(double expected, bool right) noexcept;
  /// The table's probability, corrected for this request.
  double apply(double probability) const noexcept;
  /// A cautious estimate: `apply` with the intercept lowered by half its standard deviation.
  double at_least(double probability) const noexcept;

 private:
  double shift_ = 0;       ///< of the log-odds
  double information_ = 0; ///< decayed sum of probability * (1 - probability)
};

} // namespace paceline::speculation
