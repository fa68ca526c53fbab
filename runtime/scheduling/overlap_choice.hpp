#pragma once

#include "runtime/scheduling/round.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace paceline::scheduling {

/// In which mode rounds overlap drafting with verification, by measured times. A mode changes when drafts are
/// made and not what they are, so rounds of all modes commit the same tokens and the shortest ones win.
///
///   trial of mode 0 -> trial of mode 1 -> ... -> the best one for a while -> trial of mode 0 -> ...
///
/// Rounds of different numbers of requests are not compared: a trial counts those of one number, and when the
/// number stays another one, it starts over.
///
/// Not thread-safe.
class overlap_choice {
 public:
  static constexpr std::uint32_t settling_rounds = 2; ///< of a trial, not counted: planned in the mode before
  static constexpr std::uint32_t trial_rounds = 16;   ///< counted
  static constexpr std::uint32_t hopeless_rounds =
      4; ///< after so many a trial ends if the mode is far slower
  static constexpr std::uint32_t chosen_rounds = 1000;
  static constexpr std::uint32_t patience = 32; ///< rounds in a row of another number of requests
  static constexpr double least_gain = 1.02;    ///< that a mode must show over those before it
  static constexpr double far_slower = 1.2;

  /// At least one mode, the one preferred of equals first. With one there is nothing to choose.
  explicit overlap_choice(std::vector<ahead_mode> modes);

  /// Of the round planned next.
  ahead_mode mode() const noexcept { return modes_[now_]; }
  /// A round planned in mode `planned`, of `num_requests` requests and without prompt rows, came `period`
  /// after the one before.
  void observe(ahead_mode planned, std::uint32_t num_requests, std::chrono::nanoseconds period);

 private:
  void begin_trials();
  void end_trial();
  bool comparable(std::uint32_t num_requests);

  std::vector<ahead_mode> modes_;
  std::vector<double> periods_; ///< mean of each mode's trial, in nanoseconds
  std::size_t now_ = 0;
  bool trying_ = false;
  std::uint32_t num_requests_ = 0; ///< of the rounds that are compared
  std::uint32_t num_others_ = 0;   ///< rounds in a row of another number
  std::uint32_t num_rounds_ = 0;   ///< of this trial or choice
  double sum_ = 0;
};

} // namespace paceline::scheduling
