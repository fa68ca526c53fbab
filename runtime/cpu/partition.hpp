#pragma once

#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/stream.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace paceline::cpu {

using device::stream_priority;

struct partition_options {
  std::uint32_t num_threads = 1;           ///< threads that compute, the executor included
  std::vector<std::uint32_t> cpus;         ///< cores to pin them to, the executor's first; empty: not pinned
  std::chrono::microseconds spin{100};     ///< how long team members stay awake between parallel loops
  std::chrono::microseconds idle_spin{50}; ///< how long the executor stays awake for the next program
};

/// A set of cores that computes one program at a time: a thread team, led by an executor thread that runs the
/// programs of all streams of the partition.
///
/// The executor takes, among the streams whose oldest program has no fence left to wait for, the one of the
/// highest priority, and of these the one whose program was submitted first. A program that waits for a fence
/// holds up its own stream only.
class partition {
 public:
  /// Throws std::system_error when the machine grants no more threads.
  partition(const partition_options& opts, kernel_level level);
  /// Every stream has been destroyed. Joins the executor; not called on it.
  ~partition();

  std::unique_ptr<device::stream> make_stream(std::string name, stream_priority priority);

  std::uint32_t num_threads() const noexcept { return team_.size(); }

 private:
  class queue_set;
  class queued_stream;

  struct ended_work;

  void execute();
  void tell_end() noexcept;

  const std::chrono::microseconds idle_spin_;
  const std::optional<std::uint32_t> executor_cpu_;
  thread_team team_;
  cpu_ops ops_; ///< executor only
  std::shared_ptr<queue_set> queues_;
  std::unique_ptr<ended_work> ended_; ///< what `tell_end` tells; the executor's while no errand is under way
  std::thread executor_;
};

} // namespace paceline::cpu
