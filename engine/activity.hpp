#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/device/compute_device.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline {

/// Records when the target's stream and the draft streams of a model computed. Thread-safe. Keeps total
/// times, and the last `capacity` spans for traces. A span lasts from the start to the end of a program's
/// host code. The totals exclude the time in which a program waits for its turn on the device or pauses for
/// another model.
class activity {
 public:
  explicit activity(const clock& time, std::size_t capacity = 1024) : time_(&time), capacity_(capacity) {}

  enum class side : std::uint8_t { target, draft };
  struct span {
    side who = side::target;
    std::string label;
    time_point begin, end;
  };
  struct sums {
    std::chrono::nanoseconds target{}; ///< the target's stream computed
    std::chrono::nanoseconds draft{};  ///< a draft stream computed
    std::chrono::nanoseconds both{};   ///< both computed at the same time
  };

  /// Runs `work` and records it.
  void record(side who, std::string_view label, const std::function<void()>& work);
  /// Called when a recorded program of `who` pauses (`computes` is false) or continues (true).
  void turn(side who, bool computes);

  sums totals() const;
  /// The last `capacity` spans, in the order in which they ended.
  std::vector<span> last_spans() const;

 private:
  void account(time_point now);

  const clock* time_;
  std::size_t capacity_;
  mutable std::mutex mutex_;
  std::uint32_t active_[2] = {0, 0};
  time_point since_;
  sums sums_;
  std::vector<span> spans_; ///< ring
  std::size_t next_ = 0;
};

/// A new stream of `device` that records its programs in `log`, which must outlive it. Overwrites
/// `options.on_turn`.
std::unique_ptr<device::stream> recorded_stream(device::compute_device& device, std::string name,
                                                std::uint32_t partition, device::stream_options options,
                                                activity& log, activity::side who);

} // namespace paceline
