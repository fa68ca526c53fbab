#pragma once

#include "gpu/emulation/emulated_runtime.hpp"
#include "runtime/base/check.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// An emulated GPU whose commands are queued and run only when somebody waits for them. The script is a list
/// of stream numbers, from 0 in the order of creation: each entry runs the next queued command of that
/// stream. This covers every order that a device with several engines may choose.
///
/// A stream that the script does not name runs its commands at once; if it waits for an event, the script
/// runs until the event is reached. The script must not run a stream that waits for an event which the script
/// still holds back.
class scripted_runtime final : public emulation::emulated_runtime {
 public:
  /// Sets the order from now on.
  void follow(std::vector<std::size_t> script) {
    std::lock_guard lock(mutex_);
    script_ = std::move(script);
    next_ = 0;
  }
  /// From now on streams do not wait for events: for orders that a device must not choose.
  void forget_waits() { waits_count_ = false; }
  /// Number of the script's commands that have run.
  std::size_t num_done() const {
    std::lock_guard lock(mutex_);
    return next_;
  }

  status make_stream(raw_stream& out, int urgency) override {
    const status outcome = emulated_runtime::make_stream(out, urgency);
    std::lock_guard lock(mutex_);
    const std::size_t number = queues_.size();
    numbers_[out] = number;
    queues_.emplace_back();
    return outcome;
  }

  status record(raw_event event, raw_stream stream) override {
    const status outcome = emulated_runtime::record(event, stream);
    std::lock_guard lock(mutex_);
    const std::size_t number = numbers_.at(stream);
    recorded_[event] = {number, queues_[number].num_taken + queues_[number].waiting.size()};
    return outcome;
  }

  status wait_on_device(raw_stream stream, raw_event event) override {
    if (const status failure = called("cudaStreamWaitEvent")) return failure;
    std::unique_lock lock(mutex_);
    queue& waiting = queues_[numbers_.at(stream)];
    const point until = waits_count_ ? recorded_.at(event) : point{};
    if (is_scripted(numbers_.at(stream))) {
      waiting.waiting.push_back({[] {}, until});
      changed_.notify_all();
      return 0;
    }
    do_until(until, lock);
    ++waiting.num_taken;
    return 0;
  }

 protected:
  void defer(raw_stream stream, std::function<void()> command) override {
    {
      std::lock_guard lock(mutex_);
      const std::size_t number = numbers_.at(stream);
      if (is_scripted(number)) {
        queues_[number].waiting.push_back({std::move(command), {}});
        changed_.notify_all();
        return;
      }
      ++queues_[number].num_taken;
    }
    command();
  }

  void await(raw_event event) override {
    std::unique_lock lock(mutex_);
    do_until(recorded_.at(event), lock);
  }

 private:
  /// A number of commands of a stream.
  struct point {
    std::size_t stream = 0;
    std::size_t num_commands = 0;
  };
  struct deferred {
    std::function<void()> run;
    point after; ///< the point of another stream that must be reached before
  };
  struct queue {
    std::deque<deferred> waiting;
    std::size_t num_taken = 0;
  };

  bool is_reached(const point& p) const {
    return p.num_commands == 0 || queues_[p.stream].num_taken >= p.num_commands;
  }

  /// Runs commands until `end` is reached: those of the script, and after its end those of the stream of
  /// `end`.
  void do_until(const point end, std::unique_lock<std::mutex>& lock) {
    while (!is_reached(end)) {
      queue* const chosen = next_ < script_.size() ? &queues_[script_[next_]] : &queues_[end.stream];
      if (chosen->waiting.empty()) {
        changed_.wait(lock);
        continue;
      }
      auto command = std::move(chosen->waiting.front());
      PACELINE_CHECK(is_reached(command.after), "the script lets a stream go on that waits");
      chosen->waiting.pop_front();
      command.run(); // under the lock: one at a time, in order
      ++chosen->num_taken;
      ++next_;
      changed_.notify_all();
    }
  }

  bool is_scripted(std::size_t number) const {
    for (const std::size_t s : script_)
      if (s == number) return true;
    return false;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<queue> queues_;
  std::map<raw_stream, std::size_t> numbers_;
  std::map<raw_event, point> recorded_;
  std::vector<std::size_t> script_;
  std::size_t next_ = 0;
  bool waits_count_ = true;
};

} // namespace paceline::gpu
