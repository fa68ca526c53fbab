#pragma once

#include "runtime/scheduling/round.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace paceline::scheduling {

/// Chooses the overlap mode of rounds by measured times. A mode changes when drafts are made, but not their
/// content. So rounds of all modes commit the same tokens, and the mode with the shortest rounds wins.
///
///   trial of mode 0 -> trial of mode 1 -> ... -> the best one for a while -> trial of mode 0 -> ...
///
/// Only rounds with the same number of requests are compared. If that number changes and stays changed
/// (`patience`), all trials start over with mode 0.
///
/// Not thread-safe.
class overlap_choice {
 public:
  /// Rounds in the trial's mode that are not counted, at the beginning of each trial.
  static constexpr std::uint32_t settling_rounds = 2;
  static constexpr std::uint32_t trial_rounds = 16; ///< rounds counted
  /// After this many rounds a trial ends if the mode is far slower (`far_slower`).
  static constexpr std::uint32_t hopeless_rounds = 4;
  static constexpr std::uint32_t chosen_rounds = 1000;
  /// After this many rounds in a row with another number of requests, all trials start over.
  static constexpr std::uint32_t patience = 32;
  static constexpr double least_gain = 1.02; ///< speed-up that a mode must show over the best earlier mode
  static constexpr double far_slower = 1.2;

  /// `modes`: at least one. Among equally fast modes the first wins. With one mode there are no trials.
  explicit overlap_choice(std::vector<ahead_mode> modes);

  /// The mode for the next round to be planned.
  ahead_mode mode() const noexcept { return modes_[now_]; }
  /// A round planned in mode `planned`, with `num_requests` requests and no prompt rows, ended `period` after
  /// the previous one.
  void observe(ahead_mode planned, std::uint32_t num_requests, std::chrono::nanoseconds period);

 private:
  void begin_trials();
  void end_trial();
  bool comparable(std::uint32_t num_requests);

  std::vector<ahead_mode> modes_;
  std::vector<double> periods_; ///< mean of each mode's trial, in nanoseconds
  std::size_t now_ = 0;
  bool trying_ = false;
  std::uint32_t num_requests_ = 0; ///< in the rounds that are compared
  std::uint32_t num_others_ = 0;   ///< rounds in a row with another number
  std::uint32_t num_rounds_ = 0;   ///< in this trial or choice
  double sum_ = 0;
};

} // namespace paceline::scheduling
