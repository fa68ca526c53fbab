#include "engine/snapshot.hpp"

#include "engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace paceline {

engine_snapshot snapshot_at_rest(const engine& runtime) {
  const auto rests = [](const model_counters& m) {
    // A model out of service has no requests, and an actor that has ended does not answer.
    return m.is_out_of_service || (!m.is_late && m.num_running == 0 && m.num_waiting == 0);
  };
  // A snapshot asks all actors at once, so a pool may have answered before the last release of a scheduler
  // that answered later. A second snapshot therefore asks the pools after that release.
  for (bool is_second = false;;) {
    auto now = runtime.snapshot();
    const bool is_at_rest = std::ranges::all_of(now.models, rests);
    if (is_at_rest && is_second) return now;
    is_second = is_at_rest;
    if (!is_at_rest) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

} // namespace paceline
