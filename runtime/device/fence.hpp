#pragma once

#include "runtime/base/error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace paceline::device {

/// Completion of the work enqueued on a stream up to one point. A value: copies share one state. Thread-safe.
///
/// A default-constructed fence has passed. A fence passes exactly once, with or without an error; an error
/// means that the work did not happen (or only in part) and that nothing it would have written may be read.
class fence {
 public:
  /// The shared part. The stream that made it calls `pass`.
  class state;

  fence() = default;
  explicit fence(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}

  /// True once the work is complete, failed work included.
  bool passed() const noexcept;

  /// Why the work failed; none while it has not passed or when it succeeded.
  std::optional<error> failure() const;

  /// Calls `action` once the fence has passed: at once on the calling thread if it has, else later on the
  /// thread that completes the work. `action` must not block and must not throw: it sends a message.
  void when_passed(std::function<void()> action) const;

  /// Blocks the calling thread. For tests, tools and streams; actors use `when_passed`.
  void wait() const;

  /// The shared part, for streams, which know their own kind of it; null where nothing is to be waited for.
  const std::shared_ptr<state>& shared() const noexcept { return state_; }

 private:
  std::shared_ptr<state> state_; // none: passed
};

/// What a stream implementation holds on to while the work runs. A device that can make its streams wait for
/// each other without the host keeps what it needs for that in a class of its own.
class fence::state {
 public:
  state();
  virtual ~state();
  /// Marks the work complete and runs the waiting actions on this thread. Called once.
  void pass(std::optional<error> failure = std::nullopt);

 private:
  friend class fence;
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace paceline::device
