#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

namespace paceline::gpu::emulation {

/// Asynchronous copies to shared memory (cp.async) that one thread has begun. A copy is made when the thread
/// waits for it, which is the latest time at which a GPU may make it. Until then its destination is filled
/// with 0xff (NaN in floats).
class copies_under_way {
 public:
  static constexpr std::size_t most_bytes = 16;

  /// `now`: the source is read at once, the earliest time at which a GPU may read it.
  void begin(std::byte* to, const std::byte* from, std::size_t num_bytes, bool now) {
    std::memset(to, 0xff, num_bytes);
    copy& added = open_.emplace_back(copy{to, from, num_bytes, {}});
    if (!now) return;
    std::memcpy(added.read, from, num_bytes);
    added.from = nullptr;
  }
  void end_group() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  /// Makes the copies of all groups except the last `rest` groups.
  void wait(std::size_t rest) {
    for (; groups_.size() > rest; groups_.pop_front())
      for (const copy& c : groups_.front())
        std::memcpy(c.to, c.from != nullptr ? c.from : c.read, c.num_bytes);
  }

 private:
  struct copy {
    std::byte* to;
    const std::byte* from; ///< null: already read
    std::size_t num_bytes;
    std::byte read[most_bytes];
  };

  std::vector<copy> open_;
  std::deque<std::vector<copy>> groups_;
};

} // namespace paceline::gpu::emulation
