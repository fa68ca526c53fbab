#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/stream.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace paceline::test {

/// A clock that programs advance. Between events it shows the simulation's time; within a program it adds the
/// time that the program has spent so far.
class virtual_clock final : public clock {
 public:
  time_point now() const noexcept override { return base_ + spent_; }
  void spend(std::chrono::nanoseconds d) { spent_ += d; }
  std::chrono::nanoseconds take_spent() { return std::exchange(spent_, {}); }
  void move_to(time_point t) { base_ = std::max(base_, t); }

 private:
  time_point base_{std::chrono::hours(1)};
  std::chrono::nanoseconds spent_{};
};

/// One program's place in virtual time.
struct device_span {
  std::string stream;
  std::string label;
  time_point begin, end;
};

/// Streams in virtual time on one or more partitions. A partition computes one program at a time. A program's
/// effects are visible from its start, and its fence passes at its end. Single-threaded.
class simulated_device {
 public:
  explicit simulated_device(std::uint32_t num_partitions);

  std::unique_ptr<device::stream> make_stream(std::string name, std::uint32_t partition);
  virtual_clock& time() noexcept { return time_; }

  /// A device that does not answer: from now on nothing starts and nothing ends, until it is released.
  void hang() { hung_ = true; }
  void let_go() { hung_ = false; }

  /// Starts every program that can start now.
  void start_ready();
  /// Number of running programs that can end.
  std::size_t num_running() const;
  /// Moves the time to the earliest end, or ends running program number `any` if it is given, and passes its
  /// fence.
  void complete(std::size_t any);
  void complete_earliest();

  const std::vector<device_span>& spans() const noexcept { return spans_; }

 private:
  class queued_stream;
  struct job {
    std::string label;
    std::vector<device::fence> after;
    device::program work;
    std::shared_ptr<device::fence::state> done;
  };
  struct queue {
    std::string name;
    std::uint32_t partition = 0;
    std::deque<job> jobs;
    std::uint64_t submitted = 0, completed = 0;
  };
  struct running {
    std::shared_ptr<queue> owner;
    std::shared_ptr<device::fence::state> done;
    std::optional<error> failure;
    time_point end;
  };

  bool partition_free(std::uint32_t partition) const;

  virtual_clock time_;
  std::uint32_t num_partitions_;
  std::vector<std::shared_ptr<queue>> queues_;
  std::vector<running> running_;
  bool hung_ = false;
  std::vector<device_span> spans_;
};

} // namespace paceline::test
