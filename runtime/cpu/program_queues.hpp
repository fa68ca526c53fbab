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

/// One submission. `after` stays until the work is taken, for its failures.
struct queued_work {
  std::string label;
  std::vector<device::fence> after;
  device::program work;
  std::shared_ptr<device::fence::state> done;
  stream_queue* queue = nullptr; ///< outlives its work
  std::uint64_t order = 0;       ///< over all streams of the partition
  std::size_t num_unmet = 0; ///< fences in `after` that have not passed, plus one while it is being submitted
};

struct stream_queue {
  device::stream_options options;
  std::deque<std::shared_ptr<queued_work>> waiting; ///< oldest first
  std::chrono::nanoseconds last_time{};             ///< that its program before took; 0: it had none
  bool overtaken = false;        ///< a younger program of the tenant was taken while its first one was ready
  std::uint32_t num_running = 0; ///< taken, and not told to be complete
  std::uint64_t num_submitted = 0;
  std::atomic<std::uint64_t> num_completed{0};
};

/// A program that its partition has taken.
struct taken_work {
  std::shared_ptr<stream_queue> from;
  std::shared_ptr<queued_work> item; ///< null: none was taken

  explicit operator bool() const noexcept { return item != nullptr; }
};

/// The queues of a partition's streams, and whose turn it is. Shared with the fences that queued work waits
/// for: one may pass, on any thread, while the partition goes away. Thread-safe; what the executor alone
/// calls says so.
class program_queues : public std::enable_shared_from_this<program_queues> {
 public:
  std::shared_ptr<stream_queue> open(device::stream_options options);
  /// Waits until all work of `queue` is complete, then forgets it.
  void close(const std::shared_ptr<stream_queue>& queue);
  void push(stream_queue& queue, std::shared_ptr<queued_work> item);
  std::uint64_t num_submitted(const stream_queue& queue) const;

  /// The executor's: the next work to run, or none once the partition stops. Waits awake for `idle_spin`,
  /// then parks.
  taken_work take(std::chrono::microseconds idle_spin);
  /// The executor's: the next work to run if there is some whatever the end of the work before makes ready.
  /// None when the oldest of a stream waits for a fence, which may be that one's.
  taken_work take_at_once();
  /// The executor's: the work for which the program under way, which has computed for `computed` since the
  /// last call or since it was taken, shall stand aside. None: it goes on.
  taken_work take_before(std::chrono::nanoseconds computed);
  /// The executor's: the program taken last has run, for `computed` since `take_before`, `total` in all.
  void end(stream_queue& queue, std::chrono::nanoseconds computed, std::chrono::nanoseconds total);

  /// Tells that work of `queue` is complete, in the order in which it ended.
  void complete(stream_queue& queue, queued_work& item, std::optional<error> failure);
  void stop();

  /// Set while a tenant whose programs have not begun has one ready beside a program under way: only then can
  /// `take_before` give anything.
  const std::atomic<bool>& others_wait() const noexcept { return others_wait_; }

 private:
  // The lock is held in all of them.
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
  std::vector<device::tenant_id> begun_; ///< whose programs have begun; the last one's is under way
  std::vector<device::waiting_program> candidates_;
  std::vector<std::size_t> candidate_queues_; ///< where in queues_ each of the candidates is
  std::uint64_t num_pushed_ = 0;
  std::atomic<std::uint64_t> num_signals_{0};
  alignas(64) std::atomic<bool> others_wait_{false}; ///< read before each parallel loop
  bool stopping_ = false;
};

} // namespace paceline::cpu
