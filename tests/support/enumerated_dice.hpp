#pragma once

#include "runtime/speculation/verification/dice.hpp"

#include <cstdint>
#include <functional>
#include <vector>

/// Enumerates every outcome of a verification with its probability.
namespace paceline::test {

/// Plays one sequence of decisions of a verification. `next` moves to the next sequence, until all were
/// played: each decision is first yes, then no; impossible ones are skipped.
class enumerated_dice final : public speculation::dice {
 public:
  bool keeps(double probability, token_position position, std::uint32_t place) override {
    if (at_ == decisions_.size()) decisions_.push_back({probability, probability > 0, position, place});
    const decision& one = decisions_[at_++];
    probability_ *= one.yes ? one.probability : 1 - one.probability;
    return one.yes;
  }
  /// Stores the distribution of the recovered token for `recovered`.
  token_id recovers(speculation::remaining_target& rest, token_position position) override {
    recovered_at_ = position;
    recovered_.resize(rest.vocab_size());
    for (std::size_t i = 0; i < recovered_.size(); ++i)
      recovered_[i] = rest.prob_of(token_id{static_cast<std::int32_t>(i)});
    return token_id{-1};
  }

  /// Probability of the sequence that was played.
  double probability() const noexcept { return probability_; }
  /// Probabilities of the recovered token; empty if there was none.
  const std::vector<double>& recovered() const noexcept { return recovered_; }

  /// Position of the recovered token.
  token_position recovered_at() const noexcept { return recovered_at_; }

  struct decision {
    double probability = 0;
    bool yes = false;
    token_position position;
    std::uint32_t place = 0;
  };
  /// In the order of the calls.
  const std::vector<decision>& decisions() const noexcept { return decisions_; }

  bool next() {
    while (!decisions_.empty() && (!decisions_.back().yes || decisions_.back().probability >= 1))
      decisions_.pop_back();
    if (decisions_.empty()) return false;
    decisions_.back().yes = false;
    start();
    return true;
  }

 private:
  void start() {
    at_ = 0;
    probability_ = 1;
    recovered_.clear();
  }

  std::vector<decision> decisions_;
  std::size_t at_ = 0;
  double probability_ = 1;
  std::vector<double> recovered_;
  token_position recovered_at_;
};

} // namespace paceline::test
