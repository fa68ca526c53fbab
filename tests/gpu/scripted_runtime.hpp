#pragma once

#include "gpu/emulation/emulated_runtime.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// An emulated GPU that lets commands lie until they must be done, and then does them in an order of streams
/// that the test lays down: "the next command is one of stream 1". What a device with several engines may do
/// at most.
///
/// Streams count from 0 in the order they were made. Those that the script does not name do their commands at
/// once. The script must be one that can happen: it may not have a stream go on that waits for one which it
/// holds back.
class scripted_runtime final : public emulation::emulated_runtime {
 public:
  /// Lays down the order from now on.
  void follow(std::vector<std::size_t> script) {
    std::lock_guard lock(mutex_);
    script_ = std::move(script);
    next_ = 0;
  }
  /// Commands done of those in the script.
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

 protected:
  void defer(raw_stream stream, std::function<void()> command) override {
    {
      std::lock_guard lock(mutex_);
      const std::size_t number = numbers_.at(stream);
      if (is_scripted(number)) {
        queues_[number].waiting.push_back(std::move(command));
        changed_.notify_all();
        return;
      }
      ++queues_[number].num_taken;
    }
    command();
  }

  /// Does the script's commands until the event has been reached.
  void await(raw_event event) override {
    std::unique_lock lock(mutex_);
    const auto point = recorded_.at(event);
    while (queues_[point.stream].num_taken < point.num_commands) {
      queue* const chosen = next_ < script_.size() ? &queues_[script_[next_]] : &queues_[point.stream];
      if (chosen->waiting.empty()) {
        changed_.wait(lock);
        continue;
      }
      auto command = std::move(chosen->waiting.front());
      chosen->waiting.pop_front();
      command(); // under the lock: one at a time, in order
      ++chosen->num_taken;
      ++next_;
      changed_.notify_all();
    }
  }

 private:
  struct queue {
    std::deque<std::function<void()>> waiting;
    std::size_t num_taken = 0;
  };
  struct point {
    std::size_t stream = 0;
    std::size_t num_commands = 0;
  };

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
};

} // namespace paceline::gpu
