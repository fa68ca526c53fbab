#pragma once

#include "protocol/actors/draft_worker_actor.hpp"
#include "protocol/actors/fan_out_actor.hpp"
#include "protocol/actors/kv_pool_actor.hpp"
#include "protocol/actors/scheduler_actor.hpp"
#include "protocol/actors/session_actor.hpp"
#include "protocol/actors/target_verifier_actor.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/token_event.hpp"
#include "runtime/device/fence.hpp"
#include "runtime/kv/pool_figures.hpp"
#include "runtime/scheduling/admitted_request.hpp"
#include "runtime/scheduling/pool_commands.hpp"
#include "runtime/scheduling/round.hpp"
#include "runtime/scheduling/scheduler_counters.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Messages between the actors of one process. Each comment names sender and receiver, and the fields that
/// identify a stale message. Messages carry pointers (to requests, fences, results) and therefore never leave
/// the process; a remote draft worker needs messages of its own. protocol/actors/ lists the messages of each
/// actor.
namespace paceline::protocol {

/// session -> scheduler. Starts a request. The session sends it again when the scheduler was restarted; a
/// request that is already known is not started twice.
struct submit_command {
  scheduling::admitted_request request;
  drafter_index drafter = plain_decoding;
  /// Output tokens and prompt scores that the request may report in total, until a grant_command raises the
  /// limit.
  std::uint64_t credit = 0;
};

/// engine -> session -> scheduler. May arrive before the submit_command of its request, so the scheduler
/// remembers cancellations of unknown requests.
struct cancel_command {
  request_id request;
};

/// engine -> session: the client takes `tokens` more tokens. session -> scheduler: `tokens` is the total that
/// the request may commit, so the message may be repeated. The score of a prompt token (`prompt_logprobs`)
/// counts as one token.
struct grant_command {
  request_id request;
  std::uint64_t tokens = 0;
};

/// scheduler -> kv_pool. The commands of one decision, in order. `model` is the sender's model; answers go to
/// `reply_to`.
struct pool_batch_command {
  model_number model;
  scheduler_actor reply_to;
  std::vector<scheduling::pool_command> commands;
};

/// kv_pool -> scheduler. Answers to a batch, in order. If the batch frees blocks that the scheduler of
/// another model needs, that scheduler gets the event, too, without `leases`.
struct lease_batch_event {
  std::vector<scheduling::lease_event> leases;
  /// A command of this model that asked for blocks was refused before, and blocks were freed since. The
  /// command may now succeed.
  bool blocks_freed = false;
};

/// scheduler -> target_verifier. Composition of a round. The verifier enqueues the rounds of a group in the
/// order in which they arrive.
struct round_command {
  std::shared_ptr<const scheduling::round_plan> plan;
};

/// target_verifier -> draft_worker, sent when the group's previous round was enqueued: draft for `plan` once
/// `after` has passed. `from` is the verifier's epoch (runtime/base/ids.hpp), which the answer repeats.
struct draft_request {
  std::shared_ptr<const scheduling::round_plan> plan;
  device::fence after;
  epoch from;
  target_verifier_actor reply_to;
};

/// draft_worker -> target_verifier, sent when the draft program is enqueued: `drafts` may be read once
/// `ready` has passed. Stale if `from` is not the verifier's epoch.
struct verify_request {
  round_id round;
  drafter_index drafter;
  std::shared_ptr<scheduling::draft_batch> drafts;
  device::fence ready;
  epoch from;
};

/// target_verifier -> itself, sent by the thread that completed the round's program.
struct round_passed_event {
  round_id round;
};

/// target_verifier -> scheduler. The result of a round. The verifier keeps it until `acknowledge_command`.
struct round_done_event {
  std::shared_ptr<const scheduling::round_result> result;
};

/// scheduler -> target_verifier. The scheduler has applied the result of `round`.
struct acknowledge_command {
  round_id round;
};

/// target_verifier or scheduler -> fan_out. Events of one round or decision, at most one for each request.
struct event_batch {
  std::shared_ptr<const std::vector<token_event>> events;
};

/// fan_out -> session. Event number `index` of a batch.
struct session_event {
  std::shared_ptr<const std::vector<token_event>> events;
  std::size_t index = 0;
};

/// supervisor -> scheduler, target_verifier. The current addresses of their peers. A null handle means
/// unchanged; a changed handle means that messages to the old actor may have been lost.
struct link_command {
  scheduler_actor scheduler = {};
  kv_pool_actor kv_pool = {};
  fan_out_actor fan_out = {};
  /// By drafter index, null for drafters without a worker; empty: unchanged.
  std::vector<draft_worker_actor> draft_workers = {};
};

/// target_verifier -> scheduler, when the verifier starts or gets a new scheduler: the rounds that it knows.
/// Rounds that the scheduler sent and that are not listed were lost with the previous verifier.
struct rounds_known_event {
  target_verifier_actor verifier;
  std::vector<round_id> rounds;
};

/// supervisor -> every session when fan_out was restarted: events in transit may be lost.
struct events_lost_event {};

/// supervisor -> scheduler of `model` and every session. A part that the model needs failed for good; its
/// requests end with `why`.
struct out_of_service_event {
  model_number model;
  error why{errc::internal, ""};
};

/// supervisor -> scheduler, target_verifier. The worker of `drafter` is lost. Its last program has ended once
/// `done` has passed.
struct worker_lost_event {
  drafter_index drafter;
  device::fence done;
};

/// supervisor -> every session when the scheduler of `model` was restarted. Sessions that had submitted to it
/// submit again.
struct resubmit_event {
  scheduler_actor scheduler;
  model_number model;
};

/// engine -> supervisor, answered once every actor has been started.
struct ready_question {};
struct ready_answer {};

/// engine -> session, sent after the session was registered: the session submits its request to `scheduler`.
/// The engine reads this address after the registration, so the session receives every later change of it.
struct start_event {
  scheduler_actor scheduler;
};

/// scheduler -> itself while requests are active: checks deadlines.
struct tick_event {};

/// engine -> scheduler. Refuses new requests from now on.
struct drain_command {};

/// engine -> scheduler; answered with a scheduler_answer.
struct scheduler_question {};
struct scheduler_answer {
  std::uint32_t num_running = 0;
  std::uint32_t num_waiting = 0;
  scheduling::scheduler_counters counters;
};

/// engine -> kv_pool; the answer has one entry for each pool of `model`, in order.
struct pool_question {
  model_number model;
};
struct pool_answer {
  std::vector<kv::pool_usage> usage;
  std::vector<kv::pool_counters> counters;
};

} // namespace paceline::protocol
