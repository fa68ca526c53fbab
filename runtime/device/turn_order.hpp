#pragma once

#include "runtime/base/clock.hpp"
#include "runtime/device/stream.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace paceline::device {

/// A program that is ready to run: the oldest one of its stream.
struct waiting_program {
  tenant_id tenant;
  stream_priority priority = stream_priority::normal;
  std::uint64_t order = 0;             ///< order of submission over all streams
  std::chrono::nanoseconds expected{}; ///< expected computing time; 0 if unknown
  bool overtaken = false;              ///< a younger program of its tenant ran while it was ready
};

/// Decides which program runs next on a device that computes one at a time: fair queueing between tenants by
/// computing time, and within a tenant by priority, then by order of submission. A ready program may be
/// overtaken only once by a program of its tenant; after that it has the highest priority.
///
/// A tenant is busy while it has a program that is ready, runs or is paused. Its service is its computing
/// time, plus the amount by which it was moved ahead when it became busy. Invariants, with E the longest
/// program:
/// - The service of a busy tenant is never more than 2 E + `max_owed` above the service of another one. So
///   of two tenants that stay busy, neither computes more than 4 E + 2 `max_owed` longer than the other over
///   any period. This also bounds how long a ready program waits for each other tenant, whatever that tenant
///   submits.
/// - A tenant that is new, or was not busy for longer than `short_pause`, starts with the least service of
///   the busy tenants. So it gets no additional time for its pause.
///
/// Data and decisions only: no threads, no clock. Not thread-safe.
class turn_order {
 public:
  /// Longest time without work that is treated as a short pause: the time of a client's round trip, because
  /// between two programs of a request its tenant may have no other work.
  static constexpr std::chrono::milliseconds short_pause{50};
  /// After a pause of at most `short_pause`, a tenant may be this far below the least service of the others.
  static constexpr std::chrono::milliseconds max_owed{100};

  /// Adds or removes a stream of the tenant. A tenant without streams is forgotten.
  void add_stream(tenant_id tenant);
  void remove_stream(tenant_id tenant);

  /// The tenant becomes busy; no effect if it is busy.
  void enter(tenant_id tenant, time_point now);
  /// The tenant is no longer busy.
  void leave(tenant_id tenant, time_point now);
  /// A program of the tenant has computed for `time`.
  void charge(tenant_id tenant, std::chrono::nanoseconds time);

  /// Index of the program that runs next; nullopt if there is none, or if the running one continues. `begun`
  /// has the tenants whose programs have begun: the running one last, the others paused for it.
  ///
  /// The running program pauses for a waiting one if the service of the waiting one's tenant, plus that
  /// program's expected time, is below the service of each tenant in `begun`. This condition is needed
  /// because paused programs continue only after the new program ends.
  std::optional<std::size_t> next(std::span<const waiting_program> waiting,
                                  std::span<const tenant_id> begun = {}) const;

  /// The tenant must have streams.
  std::chrono::nanoseconds service(tenant_id tenant) const { return tenants_.at(tenant).service; }

 private:
  struct tenant_state {
    std::uint32_t num_streams = 0;
    std::chrono::nanoseconds service{};
    bool busy = false;
    std::optional<time_point> left; ///< when it was last busy
  };

  std::optional<std::size_t> next_on_free_device(std::span<const waiting_program> waiting) const;
  void raise_floor();

  std::map<tenant_id, tenant_state> tenants_;
  std::chrono::nanoseconds floor_{}; ///< least service of a busy tenant; never falls
};

} // namespace paceline::device
