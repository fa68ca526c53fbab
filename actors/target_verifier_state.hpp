#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/stream.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "runtime/scheduling/round.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace paceline::actors {

/// What the verifier's actor must do after a call of the state machine.
struct verifier_actions {
  struct ask { ///< a draft request
    drafter_index drafter;
    std::shared_ptr<const scheduling::round_plan> plan;
    device::fence after;
  };
  struct watch { ///< report when this fence has passed
    round_id round;
    device::fence fence;
  };
  std::vector<ask> asks;
  std::vector<watch> watches;
  std::vector<std::shared_ptr<const scheduling::round_result>> reports;
};

/// The rounds that the scheduler has composed and whose results it has not acknowledged yet. Owned by the
/// engine, so a restarted verifier finds the rounds that its predecessor enqueued.
///
///   round_command -> queued -> (asks drafts) drafting -> enqueued -> (fence passed) reported -> acknowledged
///
/// Invariants: rounds of a group are enqueued, and run, in the order of their composition. Only the first
/// round in a group's queue may be drafting, and its drafts were requested after the previous round was
/// enqueued. A round is reported once its fence has passed.
///
/// If an enqueued round's drafts are lost because their device failed, its program does nothing and the round
/// is enqueued again without drafts. Later rounds of the group are enqueued again after it, because their
/// plans start where its plan ends.
class target_verifier_state {
 public:
  /// The references must outlive the state.
  target_verifier_state(device::stream& stream, rounds::round_runner& runner, std::uint32_t num_pools);

  verifier_actions on_round(std::shared_ptr<const scheduling::round_plan> plan);
  verifier_actions on_drafts(round_id round, drafter_index drafter, epoch from,
                             std::shared_ptr<scheduling::draft_batch> drafts, device::fence ready);
  verifier_actions on_passed(round_id round);
  void acknowledge(round_id round) { unacknowledged_.erase(round); }
  /// Called when a new actor takes over: asks again for missing drafts, watches the fences of enqueued
  /// rounds, and repeats unacknowledged reports.
  verifier_actions restart();
  /// A draft worker was replaced: repeats the draft requests that its predecessor may not have answered.
  verifier_actions on_worker_replaced(drafter_index drafter);
  /// A draft worker is lost for good. Rounds that wait for its drafts run without them, after `done`, the
  /// fence of the worker's last program, has passed.
  verifier_actions on_worker_lost(drafter_index drafter, device::fence done);
  /// The scheduler was replaced: repeats the reports that were not acknowledged.
  verifier_actions report_again() const;

  /// Abandons all work: programs that have not begun do nothing. May be called on any thread.
  void abandon() { abandoned_->store(true, std::memory_order_relaxed); }

  std::vector<round_id> known_rounds() const;
  epoch current_epoch() const noexcept { return epoch_; }
  /// Empty if all invariants hold, else the violated one.
  std::string check_invariants() const;

 private:
  struct waiting_round {
    std::shared_ptr<const scheduling::round_plan> plan;
    std::vector<drafter_index> missing;                           ///< drafters whose drafts have not arrived
    std::vector<std::shared_ptr<scheduling::draft_batch>> drafts; ///< null for a lost worker
    std::vector<device::fence> ready;                             ///< the fence of each draft batch
    bool asked = false;
  };
  struct enqueued_round {
    std::shared_ptr<const scheduling::round_plan> plan;
    std::vector<std::shared_ptr<scheduling::draft_batch>> drafts;
    std::vector<device::fence> ready;
    /// Result of the group's previous round; null if it had been reported when this one was enqueued.
    std::shared_ptr<const scheduling::round_result> before;
    std::shared_ptr<scheduling::round_result> result;
    device::fence fence;
  };

  static void go_on_without(waiting_round& round, const device::fence& done);
  void advance(group_id group, verifier_actions& out);
  void ask(waiting_round& round, drafter_index drafter, verifier_actions& out) const;
  void enqueue(enqueued_round round, verifier_actions& out);
  std::shared_ptr<const scheduling::round_result> last_result(group_id group) const;
  bool enqueue_again(enqueued_round& skipped, verifier_actions& out);

  device::stream* stream_;
  rounds::round_runner* runner_;
  std::uint32_t num_pools_;
  std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  epoch epoch_{1};
  std::map<group_id, std::deque<waiting_round>> waiting_;
  std::map<group_id, device::fence> last_fence_; ///< fence of the group's last enqueued round
  std::map<drafter_index, device::fence> lost_workers_;
  std::map<round_id, enqueued_round> enqueued_;
  std::map<round_id, std::shared_ptr<const scheduling::round_result>> unacknowledged_;
};

} // namespace paceline::actors
