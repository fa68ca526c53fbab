#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/fence.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::device {

class ops;

/// A piece of work: host code that calls ops, run on a thread of the stream's when its turn comes. On a host
/// device an op is complete when its call returns. On an asynchronous device it is issued then and completes
/// later, in order; what the host is to read of it is asked for (`ops::place_for`, `ops::deliver`), and the
/// program's fence passes when all of its ops are complete. It may throw: its fence then passes with
/// `errc::internal`, or `errc::device_lost` where the device is what failed.
using program = std::function<void(ops&)>;

/// Which work of one tenant a device takes first when several of its streams are ready: the target's passes
/// (normal) before drafting (low). A program that has begun is finished before another of its tenant begins.
enum class stream_priority : std::uint8_t { normal, low };

/// Whose work a stream carries: a model with its drafters. A device that computes one program at a time
/// shares its time evenly among the tenants that have work (runtime/device/turn_order.hpp); priorities order
/// the streams of one tenant. Streams for which nobody says otherwise belong to tenant 0. On a device whose
/// hardware takes work of several streams at once (GPUs) it has no effect.
using tenant_id = strong_id<struct tenant_id_tag, std::uint32_t>;

struct stream_options {
  stream_priority priority = stream_priority::normal;
  tenant_id tenant{};
  /// Called when a program of the stream has begun to stand aside for another tenant's (false), and before it
  /// goes on (true), on the thread that runs it. Must not throw. Empty: nobody asks. Devices on which no
  /// program stands aside never call it.
  std::function<void(bool computes)> on_turn = {};
};

/// An ordered queue of work on one device. `submit` is thread-safe and never blocks.
class stream {
 public:
  virtual ~stream() = default;

  /// Runs `work` after everything submitted before it on this stream is complete and all `after` fences have
  /// passed.
  ///
  /// An asynchronous device may run the host code of `work` earlier: as soon as the programs before it, on
  /// this stream and behind fences of the same device, have been issued. Their ops come first all the same,
  /// and what they give the host they have given by then (`ops::deliver`). The fence of `work` passes after
  /// all of them, and fails with them.
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
