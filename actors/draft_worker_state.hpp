#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/fence.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/rounds/draft_runner.hpp"
#include "runtime/scheduling/round.hpp"

#include <memory>
#include <optional>

namespace paceline::actors {

/// What a draft worker answers at once: its program is enqueued, `drafts` may be read after `ready`.
struct enqueued_draft {
  std::shared_ptr<scheduling::draft_batch> drafts;
  device::fence ready;
};

/// The programs of one drafter on its stream. Owned by the engine, with the sessions of the requests and the
/// drafts made in advance (`draft_runner`): a restarted worker goes on with them.
///
/// Invariant: programs of this drafter are submitted by nobody else, so that the submission number of each is
/// known before it is submitted.
class draft_worker_state {
 public:
  /// References outlive the state. `drafter`: the worker's in plans. `pool`: its own, if it has one.
  draft_worker_state(device::stream& stream, rounds::draft_runner& runner, drafter_index drafter,
                     std::optional<pool_number> pool);

  /// Drafts for `plan` once `after`, the fence of the group's round before, has passed; in advance, beside
  /// that round, for the items that ask for it.
  enqueued_draft on_request(const std::shared_ptr<const scheduling::round_plan>& plan,
                            const device::fence& after);

  drafter_index drafter() const noexcept { return drafter_; }
  /// The worker is lost for good. Passes once no program of it reads a request any more.
  device::fence programs_done();

 private:
  device::stream* stream_;
  rounds::draft_runner* runner_;
  drafter_index drafter_;
  std::optional<pool_number> pool_;
};

} // namespace paceline::actors
