#pragma once

#include "apps/commands/local_engine.hpp"

#include <chrono>
#include <string>

namespace paceline::apps {

/// One of the two runs of the command /race, which answers a message with a drafter and without.
struct race_run {
  std::string name; ///< "plain", or the drafter
  generated result;
  std::chrono::duration<double> time{}; ///< from the submission to the last event
};

/// The time and speed of both runs, and how many leading tokens are the same in both.
std::string race_report(const race_run& plain, const race_run& speculative);

} // namespace paceline::apps
