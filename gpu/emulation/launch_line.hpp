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

/// The launches of a stream that have arrived but not ended. A kernel is held back until the next command of
/// the stream is known. If this command is a launch that starts early, some of its blocks are run before the
/// held kernel has begun, up to the point where they wait for the previous kernel. Up to two launches after
/// that may be started in the same way. So if a kernel reads or writes before it waits, it does so before its
/// predecessors have done anything, and its results are wrong.
///
/// Makes the device's memory accessible while kernels run. Thread-safe. Functions throw the exceptions of
/// kernels.
class launch_line {
 public:
  explicit launch_line(device_memory& memory);
  ~launch_line();
  launch_line(const launch_line&) = delete;
  launch_line& operator=(const launch_line&) = delete;

  /// Adds the next launch of the stream. A launch that starts early must directly follow another launch.
  void add(const kept_launch& launch, std::uint64_t seed, launch_start start);
  /// Returns when all launches have ended.
  void finish();

 private:
  struct held_launch;

  void finish_all_but(std::size_t num_left);
  /// If a kernel fails, the held launches are dropped.
  void run_or_drop_all(const std::function<void()>& work);

  device_memory& memory_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<held_launch>> held_; ///< the oldest first
};

} // namespace paceline::gpu::emulation
