#pragma once

#include "runtime/base/error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace paceline::device {

/// The completion of the work on a stream up to one point. A value: copies share one state. Thread-safe.
///
/// A default-constructed fence has passed. A fence passes exactly once, with or without an error. An error
/// means that the work was not done, or only in part, and that its outputs must not be read.
class fence {
 public:
  /// The shared state. The stream that created it calls `pass`.
  class state;

  fence() = default;
  explicit fence(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}

  /// True once the work is complete, even if it failed.
  bool passed() const noexcept;

  /// Why the work failed; nullopt if it succeeded or the fence has not passed yet.
  std::optional<error> failure() const;

  /// Calls `action` once the fence has passed: immediately on the calling thread if it has passed already,
  /// otherwise later on the thread that completes the work. `action` must not block or throw; it should send
  /// a message.
  void when_passed(std::function<void()> action) const;

  /// Blocks the calling thread. For tests, tools and streams; actors use `when_passed`.
  void wait() const;

  /// The shared state, for streams, which know its concrete type; null if there is nothing to wait for.
  const std::shared_ptr<state>& shared() const noexcept { return state_; }

 private:
  std::shared_ptr<state> state_; // null: passed
};

/// The state that a stream implementation keeps while the work runs. If a device's streams can wait for each
/// other without the host, the device derives a class that also has the data for this.
class fence::state {
 public:
  state();
  virtual ~state();
  /// Marks the work complete and runs the waiting actions on the calling thread. Called once.
  void pass(std::optional<error> failure = std::nullopt);

 private:
  friend class fence;
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::device
