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
  for (;;) {
    auto now = runtime.snapshot();
    if (std::ranges::all_of(now.models, rests)) return now;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

} // namespace paceline
