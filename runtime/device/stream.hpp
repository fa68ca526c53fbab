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

/// A piece of work: host code that calls ops, run on a thread of the stream in its turn. On a host device an
/// op is complete when its call returns. On an asynchronous device the call only issues it; ops complete
/// later, in order. The host requests results with `ops::place_for` and `ops::deliver`, and the program's
/// fence passes when all its ops are complete. If a program throws, its fence passes with `errc::internal`,
/// or with `errc::device_lost` if the device failed.
using program = std::function<void(ops&)>;

/// Which work of one tenant a device runs first if several of the tenant's streams are ready: the target's
/// passes (normal) before drafting (low). A program that has begun is finished before another program of the
/// same tenant begins.
enum class stream_priority : std::uint8_t { normal, low };

/// The owner of a stream's work: a model with its drafters. A device that computes one program at a time
/// divides its time evenly between the tenants that have work (runtime/device/turn_order.hpp); priorities
/// order the streams of one tenant. The default is tenant 0. Tenants have no effect on devices whose hardware
/// takes work of several streams at the same time (GPUs).
using tenant_id = strong_id<struct tenant_id_tag, std::uint32_t>;

struct stream_options {
  stream_priority priority = stream_priority::normal;
  tenant_id tenant{};
  /// Called on the thread that runs a program of the stream, with false when the program has paused for
  /// another tenant, and with true before it continues. Must not throw. May be empty. Devices on which
  /// programs never pause do not call it.
  std::function<void(bool computes)> on_turn = {};
};

/// An ordered queue of work on one device. `submit` is thread-safe and never blocks.
class stream {
 public:
  virtual ~stream() = default;

  /// Runs `work` once everything submitted before it on this stream is complete and all `after` fences have
  /// passed.
  ///
  /// An asynchronous device may run the host code of `work` before that: as soon as the host code of its
  /// predecessors has run. These are the programs submitted before it on this stream, and the programs of the
  /// same device whose fences are in `after`. The ops of the predecessors still run before those of `work`,
  /// and the results that they deliver (`ops::deliver`) are already in host memory. The fence of `work`
  /// passes after all these ops. It fails if a fence in `after` fails meanwhile.
  ///
  /// If a fence of `after` failed, this work fails without being run. Its error has the same code and a
  /// message that contains the message of that fence and the label of this work. A failure of earlier work on
  /// the same stream does not fail this work. Work that needs the results of earlier work must have its fence
  /// in `after`. Destroying the stream waits for all of its work, and so for the fences in `after`.
  virtual fence submit(std::string_view label, std::vector<fence> after, program work) = 0;

  /// Name for traces ("target", "draft:small").
  virtual const std::string& name() const noexcept = 0;

  /// Number of completed submissions. A KV block is freed when this number shows that no submission reads the
  /// block any more. The number never decreases. A submission is counted just before its fence passes.
  virtual std::uint64_t completed() const noexcept = 0;
  /// Number of submissions so far; the next one completes as number `submitted() + 1`.
  virtual std::uint64_t submitted() const noexcept = 0;
};

} // namespace paceline::device
