#pragma once

#include "actors/part.hpp"
#include "runtime/base/error.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace paceline::actors {

/// What failed since the start, one entry a part: for those who run the engine, since replies do not tell all
/// of it. Thread-safe.
class fault_book {
 public:
  struct entry {
    std::uint64_t num = 0; ///< times it failed
    bool is_lost = false;  ///< for good
    error last{errc::internal, ""};
  };

  /// What the part worked on failed; it goes on.
  void note(const part& which, error why) { write(which, false, std::move(why)); }
  /// The part is not started again.
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
    if (entry.is_lost && !is_lost) return; // the reason of its end stays
    entry.is_lost = is_lost;
    entry.last = std::move(why);
  }

  mutable std::mutex mutex_;
  std::map<part, entry> entries_;
};

} // namespace paceline::actors
