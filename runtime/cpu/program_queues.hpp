#pragma once

#include "runtime/device/stream.hpp"
#include "runtime/device/turn_order.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::cpu {

struct stream_queue;

/// One submission. `after` is kept until the work is taken, because a failed fence fails the work.
struct queued_work {
  std::string label;
  std::vector<device::fence> after;
  device::program work;
  std::shared_ptr<device::fence::state> done;
  stream_queue* queue = nullptr; ///< must outlive its work
  std::uint64_t order = 0;       ///< order of submission over all streams of the partition
  std::size_t num_unmet = 0;     ///< fences in `after` that have not passed, plus one during the submission
};

struct stream_queue {
  device::stream_options options;
  std::deque<std::shared_ptr<queued_work>> waiting; ///< oldest first
  std::chrono::nanoseconds last_time{};             ///< duration of its previous program; 0: none
  bool overtaken = false;        ///< a younger program of the tenant was taken while the front was ready
  std::uint32_t num_running = 0; ///< taken, and not reported as complete
  std::uint64_t num_submitted = 0;
  std::atomic<std::uint64_t> num_completed{0};
};

/// A program that its partition has taken.
struct taken_work {
  std::shared_ptr<stream_queue> from;
  std::shared_ptr<queued_work> item; ///< null: none was taken

  explicit operator bool() const noexcept { return item != nullptr; }
};

/// The queues of a partition's streams, and the order of turns. The fences for which queued work waits share
/// ownership of the object, because they may pass, on any thread, while the partition is being destroyed.
/// Thread-safe, except for functions marked "Executor only".
class program_queues : public std::enable_shared_from_this<program_queues> {
 public:
  std::shared_ptr<stream_queue> open(device::stream_options options);
  /// Waits until all work of `queue` is complete, then removes it.
  void close(const std::shared_ptr<stream_queue>& queue);
  void push(stream_queue& queue, std::shared_ptr<queued_work> item);
  std::uint64_t num_submitted(const stream_queue& queue) const;

  /// Executor only: the next work to run, or none once the partition stops. Spins for `idle_spin`, then
  /// parks.
  taken_work take(std::chrono::microseconds idle_spin);
  /// Executor only: the next work to run, if the choice cannot depend on the previous work's fence, which has
  /// not passed yet. None if the oldest work of any stream waits for a fence, or if no work is ready.
  taken_work take_at_once();
  /// Executor only: the work for which the running program must pause. `computed` is the running program's
  /// computing time since the last call, or since it was taken. None: the program continues.
  taken_work take_before(std::chrono::nanoseconds computed);
  /// Executor only: the running program has ended. It computed for `computed` since the last call of
  /// `take_before`, or since it was taken, and for `total` in all.
  void end(stream_queue& queue, std::chrono::nanoseconds computed, std::chrono::nanoseconds total);

  /// Passes the fence of work that has ended, with `failure` if it failed. Called in the order in which work
  /// ended.
  void complete(stream_queue& queue, queued_work& item, std::optional<error> failure);
  void stop();

  /// True while a program runs and another tenant, none of whose programs has begun, has a ready program.
  /// Only then can `take_before` return work.
  const std::atomic<bool>& others_wait() const noexcept { return others_wait_; }

 private:
  // These require the lock.
  taken_work take_ready();
  void mark_overtaken(const stream_queue& taken, std::uint64_t order);
  bool has_ready(device::tenant_id tenant) const;
  bool has_begun(device::tenant_id tenant) const;
  void look_for_others();
  void signal();

  void meet(queued_work& item);

  mutable std::mutex mutex_;
  std::condition_variable ready_;   ///< the executor waits for it
  std::condition_variable drained_; ///< streams being destroyed wait for it
  std::vector<std::shared_ptr<stream_queue>> queues_;
  device::turn_order turns_;
  std::vector<device::tenant_id> begun_; ///< tenants whose programs have begun; the last one's is running
  std::vector<device::waiting_program> candidates_;
  std::vector<std::size_t> candidate_queues_; ///< index in queues_ of each candidate
  std::uint64_t num_pushed_ = 0;
  std::atomic<std::uint64_t> num_signals_{0};
  alignas(64) std::atomic<bool> others_wait_{false}; ///< read before each parallel loop
  bool stopping_ = false;
};

} // namespace paceline::cpu
