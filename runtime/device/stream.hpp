#pragma once

#include "runtime/device/fence.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::device {

class ops;

/// A piece of work: host code that calls ops. A host device runs it on the stream's own thread when its turn comes; an
/// asynchronous device runs it at submission, so that its ops are issued in order and complete later. It may throw
/// `check_failure` or `std::exception`: its fence then passes with `errc::internal`, and so do the fences of work that
/// was to start after it.
using program = std::function<void(ops&)>;

/// An ordered queue of work on one device. `submit` is thread-safe and never blocks.
class stream {
public:
  virtual ~stream() = default;

  /// Runs `work` after everything submitted before it on this stream and after all `after` fences have passed. The
  /// failure of a fence in `after` fails this work without running it.
  virtual fence submit(std::string_view label, std::vector<fence> after, program work) = 0;

  /// Name for traces ("target", "draft:small").
  virtual const std::string& name() const noexcept = 0;

  /// Number of submissions whose fence has passed: the watermark that frees KV blocks. Monotonic.
  virtual std::uint64_t completed() const noexcept = 0;
  /// Number of submissions so far; the next one completes as `submitted() + 1`.
  virtual std::uint64_t submitted() const noexcept = 0;
};

} // namespace paceline::device
