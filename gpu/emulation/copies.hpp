#pragma once

#include <cstddef>
#include <cstring>
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
    copy& added = copies_.emplace_back(copy{to, from, num_bytes, {}});
    if (!now) return;
    std::memcpy(added.read, from, num_bytes);
    added.from = nullptr;
  }
  void end_group() { group_ends_.push_back(copies_.size()); }
  /// Makes the copies of all groups except the last `rest` groups.
  void wait(std::size_t rest) {
    if (group_ends_.size() <= rest) return;
    const auto kept_group = group_ends_.end() - static_cast<std::ptrdiff_t>(rest);
    const std::size_t num_made = kept_group[-1];
    const auto kept = copies_.begin() + static_cast<std::ptrdiff_t>(num_made);
    for (auto c = copies_.begin(); c != kept; ++c)
      std::memcpy(c->to, c->from != nullptr ? c->from : c->read, c->num_bytes);
    copies_.erase(copies_.begin(), kept);
    group_ends_.erase(group_ends_.begin(), kept_group);
    for (auto& end : group_ends_) end -= num_made;
  }
  /// Drops all copies. Keeps the memory: every thread of every block starts with this call.
  void clear() {
    copies_.clear();
    group_ends_.clear();
  }

 private:
  struct copy {
    std::byte* to;
    const std::byte* from; ///< null: already read
    std::size_t num_bytes;
    std::byte read[most_bytes];
  };

  std::vector<copy> copies_;            ///< copies not yet made, the oldest first
  std::vector<std::size_t> group_ends_; ///< number of copies up to the end of each group
};

} // namespace paceline::gpu::emulation
