#pragma once

#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/stream.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace paceline::cpu {

class program_queues;
struct taken_work;

struct partition_options {
  std::uint32_t num_threads = 1;           ///< computing threads, the executor included
  std::vector<std::uint32_t> cpus;         ///< cores to pin them to, the executor's first; empty: not pinned
  std::chrono::microseconds spin{100};     ///< how long team members spin between parallel loops
  std::chrono::microseconds idle_spin{50}; ///< how long the executor spins for the next program
};

/// A set of cores that computes one program at a time: a thread team, led by an executor thread that runs the
/// programs of all streams of the partition.
///
/// The executor considers the streams whose oldest program has no fence left to wait for. It takes the tenant
/// with the least computing time (as device::turn_order counts it). Of this tenant's programs it takes the
/// one whose stream has the highest priority; of several, the one that was submitted first. Once a program
/// has been overtaken, it has the highest priority. A program that waits for a fence delays only its own
/// stream.
///
/// A program may pause between two of its parallel loops for a program of another tenant. It pauses if the
/// other tenant's computing time, plus the expected time of its program, is less than the computing time of
/// every tenant whose program has begun. The executor then runs the other program to its end inside the
/// paused program's call of an op. Programs of one tenant never run inside each other. While a program calls
/// an op, it must not hold a lock that another tenant's program takes.
class partition {
 public:
  /// Throws std::system_error if the machine grants no more threads.
  partition(const partition_options& opts, kernel_level level);
  /// Every stream must have been destroyed. Joins the executor, so it must not be called on it.
  ~partition();

  std::unique_ptr<device::stream> make_stream(std::string name, device::stream_options options);

  std::uint32_t num_threads() const noexcept { return team_.size(); }

 private:
  class queued_stream;
  struct begun_program;
  struct ended_work;

  void execute();
  void run(taken_work taken);
  void stand_aside();
  cpu_ops& ops_at(std::size_t depth);
  void tell_end() noexcept;

  const std::chrono::microseconds idle_spin_;
  const std::optional<std::uint32_t> executor_cpu_;
  const kernel_level level_;
  thread_team team_;
  std::shared_ptr<program_queues> queues_;
  // Used by the executor only:
  std::vector<begun_program> begun_; ///< the last one is running, the others are paused for it
  std::vector<std::unique_ptr<cpu_ops>>
      ops_; ///< [i] serves begun_[i] alone, because a cpu_ops keeps values between calls
  /// The end that `tell_end` reports. Used by the executor, except while a team member runs `tell_end` for it
  /// (thread_team::leave_errand).
  std::unique_ptr<ended_work> ended_;
  std::thread executor_;
};

} // namespace paceline::cpu
