#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

namespace paceline::gpu::emulation {

/// Copies to shared memory that one thread has begun, made when it waits for them: never earlier than a GPU
/// may. Until then their destination is NaN.
class copies_under_way {
 public:
  void begin(std::byte* to, const std::byte* from, std::size_t num_bytes) {
    std::memset(to, 0xff, num_bytes);
    open_.push_back({to, from, num_bytes});
  }
  void end_group() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  /// Makes those of all groups but the last `rest`.
  void wait(std::size_t rest) {
    for (; groups_.size() > rest; groups_.pop_front())
      for (const copy& c : groups_.front()) std::memcpy(c.to, c.from, c.num_bytes);
  }

 private:
  struct copy {
    std::byte* to;
    const std::byte* from;
    std::size_t num_bytes;
  };

  std::vector<copy> open_;
  std::deque<std::vector<copy>> groups_;
};

} // namespace paceline::gpu::emulation
