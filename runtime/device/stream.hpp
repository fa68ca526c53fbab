#pragma once

#include "runtime/device/fence.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::device {

class ops;

/// A piece of work: host code that calls ops. A host device runs it on the stream's own thread when its turn
/// comes; an asynchronous device runs it at submission, so that its ops are issued in order and complete
/// later. It may throw: its fence then passes with `errc::internal`.
using program = std::function<void(ops&)>;

/// An ordered queue of work on one device. `submit` is thread-safe and never blocks.
class stream {
 public:
  virtual ~stream() = default;

  /// Runs `work` after everything submitted before it on this stream is complete and all `after` fences have
  /// passed.
  ///
  /// A fence of `after` that failed fails this work without running it: same code, and a message that tells
  /// both. Work submitted earlier on this stream that failed does not: who needs its results names its fence.
  /// Destroying the stream waits for all of its work, hence for the fences named.
  virtual fence submit(std::string_view label, std::vector<fence> after, program work) = 0;

  /// Name for traces ("target", "draft:small").
  virtual const std::string& name() const noexcept = 0;

  /// Number of submissions that are complete: the watermark that frees KV blocks. Monotonic; counts a
  /// submission just before its fence passes.
  virtual std::uint64_t completed() const noexcept = 0;
  /// Number of submissions so far; the next one completes as `submitted() + 1`.
  virtual std::uint64_t submitted() const noexcept = 0;
};

} // namespace paceline::device
