#pragma once

#include "actors/part.hpp"
#include "runtime/base/error.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace paceline::actors {

/// The failures since the engine's start, one entry for each part that failed. Deaths that a restart repairs
/// are not recorded. The book is for operators, because clients do not see all failures. Thread-safe.
class fault_book {
 public:
  struct entry {
    std::uint64_t num = 0; ///< number of failures
    bool is_lost = false;  ///< the part will not be restarted
    error last{errc::internal, ""};
  };

  /// Counts a failure after which the part continues.
  void note(const part& which, error why) { write(which, false, std::move(why)); }
  /// Counts a failure after which the part is not restarted.
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
