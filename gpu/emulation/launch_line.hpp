#pragma once

#include "gpu/emulation/device_memory.hpp"
#include "gpu/emulation/emulated_graph.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace paceline::gpu::emulation {

/// The launches of a stream that have come up and not ended. A kernel is held back until it is known what
/// comes next: if that starts early, some of its blocks are carried to where they wait before this one has
/// begun, and perhaps those of one or two more behind it. So a kernel that reads, or writes, before it has
/// waited does that before its predecessors have done anything.
///
/// Opens the device's memory for what it runs. Thread-safe; calls throw what kernels do.
class launch_line {
 public:
  explicit launch_line(device_memory& memory);
  ~launch_line();
  launch_line(const launch_line&) = delete;
  launch_line& operator=(const launch_line&) = delete;

  /// The next launch of the stream. One that starts early comes right behind another.
  void add(const kept_launch& launch, std::uint64_t seed, launch_start start);
  /// Returns when all of them have ended.
  void finish();

 private:
  struct held_launch;

  void finish_all_but(std::size_t num_left);
  /// Where a kernel fails nothing of what is held is done.
  void run_or_drop_all(const std::function<void()>& work);

  device_memory& memory_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<held_launch>> held_; ///< the oldest in front
};

} // namespace paceline::gpu::emulation
