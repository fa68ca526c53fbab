#pragma once

#include "actors/part.hpp"
#include "runtime/base/error.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace paceline::actors {

/// The failures since the start, one entry for each part, for operators: clients do not see all of them.
/// Thread-safe.
class fault_book {
 public:
  struct entry {
    std::uint64_t num = 0; ///< number of failures
    bool is_lost = false;  ///< permanently
    error last{errc::internal, ""};
  };

  /// The part failed at something and continues.
  void note(const part& which, error why) { write(which, false, std::move(why)); }
  /// The part will not be restarted.
  void note_lost(const part& which, error why) { write(which, true, std::move(why)); }

  std::map<part, entry> all() const {
    std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  void write(const part& which, bool is_lost, error why) {
    std::lock_guard lock(mutex_);
    auto& entry = entries_[which];
    ++entry.num;
    if (entry.is_lost && !is_lost) return; // the reason of the loss is kept
    entry.is_lost = is_lost;
    entry.last = std::move(why);
  }

  mutable std::mutex mutex_;
  std::map<part, entry> entries_;
};

} // namespace paceline::actors
