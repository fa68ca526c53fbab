#pragma once

#include <array>
#include <cstdint>

namespace paceline::speculation {

/// What is known about a draft token before verification. `signal` is its drafter's confidence (0 = none, to
/// 7 = highest; its meaning is the drafter's, and it is calibrated here), `depth` its level in the tree,
/// `rank` the number of siblings before it.
struct node_place {
  std::uint8_t signal = 0;
  std::uint32_t depth = 0;
  std::uint32_t rank = 0;
};

/// A level of a chain of which nothing else is known.
constexpr node_place place_of_level(std::uint32_t level) { return {.signal = 0, .depth = level, .rank = 0}; }

/// How often draft tokens of one drafter turned out right, given that their parent did, over all requests.
/// Decayed counts by place.
class acceptance_table {
 public:
  static constexpr std::uint32_t num_signals = 8;
  /// By signal: what is thought of first draft tokens before any was counted; 0 = nothing is known.
  using prior = std::array<float, num_signals>;

  explicit acceptance_table(const prior& first = {}) noexcept;
  void count(node_place at, bool right) noexcept;
  double probability(node_place at) const noexcept; ///< in (0, 1)
  /// The same, where `guess` is used until there are observations.
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

/// How much one request's drafts are better or worse than the table says: the intercept of a logistic model
/// whose offset is the table's log-odds, updated by one Newton step for each observation. The information of
/// earlier observations decays. The prior, a normal distribution, is always added: it bounds the step and
/// slowly pulls the intercept back.
class request_bias {
 public:
  void count(double expected, bool right) noexcept;
  /// The table's probability, corrected for this request.
  double apply(double probability) const noexcept;
  /// The same, as low as it may well be by what is known of this request.
  double at_least(double probability) const noexcept;

 private:
  double shift_ = 0;       ///< of the log-odds
  double information_ = 0; ///< decayed sum of probability * (1 - probability)
};

} // namespace paceline::speculation
