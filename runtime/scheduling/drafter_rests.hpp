#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/base/ids.hpp"

#include <algorithm>
#include <map>

namespace paceline::scheduling {

/// Drafters that are not asked for a while because they failed. A drafter rests for a second after its first
/// failure, and for twice as long after each further failure in a row, at most a minute. If it succeeds after
/// a rest, the next failure counts as the first one. Not thread-safe.
class drafter_rests {
 public:
  static constexpr std::chrono::nanoseconds shortest = std::chrono::seconds(1);
  static constexpr std::chrono::nanoseconds longest = std::chrono::minutes(1);

  /// The drafter failed: its rest begins. No effect while it rests.
  void failed(drafter_index drafter, time_point now) {
    auto& rest = rests_[drafter];
    if (rest.length.count() != 0 && !rest.over) return; // it was asked before the failure was known
    rest.length = std::clamp(rest.length * 2, shortest, longest);
    rest.until = now + rest.length;
    rest.over = false;
  }
  /// The drafter has drafted without failure. No effect while it rests.
  void drafted(drafter_index drafter) {
    if (const auto it = rests_.find(drafter); it != rests_.end() && it->second.over) rests_.erase(it);
  }
  /// Allows drafters whose rest has ended to be asked again.
  void wake(time_point now) {
    for (auto& [drafter, rest] : rests_) rest.over |= now >= rest.until;
  }
  bool rests(drafter_index drafter) const {
    const auto it = rests_.find(drafter);
    return it != rests_.end() && !it->second.over;
  }

 private:
  struct rest {
    time_point until;
    std::chrono::nanoseconds length{};
    bool over = false;
  };
  std::map<drafter_index, rest> rests_;
};

} // namespace paceline::scheduling
