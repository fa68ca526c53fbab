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

/// The oldest program of a stream, ready to run.
struct waiting_program {
  tenant_id tenant;
  stream_priority priority = stream_priority::normal;
  std::uint64_t order = 0;             ///< of submission, over all streams
  std::chrono::nanoseconds expected{}; ///< how long it may compute; 0 where nothing is known
  bool overtaken = false;              ///< a younger program of its tenant ran while it was ready
};

/// Which program a device that computes one at a time runs next: fair queueing of its tenants by the time
/// they computed, and within a tenant by priority, then by order of submission. One program of its tenant may
/// overtake a program that is ready; from then on its priority is the highest, and no younger one does.
///
/// A tenant is busy while it has a program that is ready, runs or stands aside. Its service is what it
/// computed, plus what it was moved ahead when it became busy. Invariants, with E the longest program:
/// - A busy tenant's service is never more than 2 E + `most_owed` above another one's. So of two tenants that
///   stay busy neither computes more than 4 E + 2 `most_owed` longer than the other over any stretch of time,
///   and that is how long a ready program may wait for each other tenant, whatever that one submits.
/// - A tenant that is new, or was not busy for longer than `short_pause`, begins level with the one behind
/// all
///   others. So a pause is no claim on the time that others computed meanwhile.
///
/// Data and decisions only: no threads, no clock. Not thread-safe.
class turn_order {
 public:
  /// A client's round trip: between two programs of one request the device may have none of its tenant's.
  static constexpr std::chrono::milliseconds short_pause{50};
  static constexpr std::chrono::milliseconds most_owed{100};

  /// A tenant has one stream more, or one less. Without streams it is forgotten.
  void add_stream(tenant_id tenant);
  void remove_stream(tenant_id tenant);

  /// The tenant is busy from now on; nothing if it is.
  void enter(tenant_id tenant, time_point now);
  /// It is no longer.
  void leave(tenant_id tenant, time_point now);
  /// A program of the tenant computed for `time`.
  void charge(tenant_id tenant, std::chrono::nanoseconds time);

  /// Index of the program that runs next; none: none, or the one under way goes on. `begun`: tenants whose
  /// programs have begun, the one under way last and the others standing aside for it.
  ///
  /// A program under way stands aside for one that is expected to end before its tenant has computed as long
  /// as any of `begun`: they go on only behind its end, and shall not have fallen behind by then.
  std::optional<std::size_t> next(std::span<const waiting_program> waiting,
                                  std::span<const tenant_id> begun = {}) const;

  /// Of a tenant with streams.
  std::chrono::nanoseconds service(tenant_id tenant) const { return tenants_.at(tenant).service; }

 private:
  struct tenant_state {
    std::uint32_t num_streams = 0;
    std::chrono::nanoseconds service{};
    bool busy = false;
    std::optional<time_point> left; ///< when it was busy last
  };

  std::optional<std::size_t> next_on_free_device(std::span<const waiting_program> waiting) const;
  void raise_floor();

  std::map<tenant_id, tenant_state> tenants_;
  std::chrono::nanoseconds floor_{}; ///< least service of a busy tenant; never falls
};

} // namespace paceline::device
