#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/fence.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/rounds/draft_runner.hpp"
#include "runtime/scheduling/round.hpp"

#include <memory>
#include <optional>

namespace paceline::actors {

/// The answer of a draft worker, given as soon as its program is enqueued. `drafts` may be read once `ready`
/// has passed.
struct enqueued_draft {
  std::shared_ptr<scheduling::draft_batch> drafts;
  device::fence ready;
};

/// The programs of one drafter on its stream. The engine owns this object, the drafter's sessions and the
/// drafts made in advance (`draft_runner`), so a restarted worker continues with them.
///
/// Invariant: nobody else submits programs of this drafter, so the submission number of each program is known
/// before it is submitted.
class draft_worker_state {
 public:
  /// The references must outlive the state. `drafter` is the worker's index in plans; `pool` is the drafter's
  /// own pool, if it has one.
  draft_worker_state(device::stream& stream, rounds::draft_runner& runner, drafter_index drafter,
                     std::optional<pool_number> pool);

  /// Enqueues drafting for `plan`, to start once `after`, the fence of the group's previous round, has
  /// passed. If that round still runs, and the `ahead` mode of an item is not off, a program that makes
  /// drafts in advance is enqueued first. This program does not wait for `after`.
  enqueued_draft on_request(const std::shared_ptr<const scheduling::round_plan>& plan,
                            const device::fence& after);

  drafter_index drafter() const noexcept { return drafter_; }
  /// Called when the worker is lost for good. Enqueues a program that drops the drafter's state of all
  /// requests. The returned fence passes when all programs of the worker have ended.
  device::fence programs_done();

 private:
  device::stream* stream_;
  rounds::draft_runner* runner_;
  drafter_index drafter_;
  std::optional<pool_number> pool_;
};

} // namespace paceline::actors
