#pragma once

#include "actors/behaviors.hpp"
#include "actors/directory.hpp"
#include "actors/supervisor_state.hpp"

#include <map>
#include <memory>
#include <vector>

namespace paceline::actors {

/// The states on which the actors of one model run. Owned by the engine; must outlive the supervisor.
struct model_parts {
  scheduling::scheduler_state* scheduler = nullptr;
  target_verifier_state* verifier = nullptr;
  std::vector<draft_worker_state*> draft_workers; ///< by drafter index; null for drafters without a worker
};

struct supervisor_parts {
  std::vector<model_parts> models;
  kv_pool_state* kv_pool = nullptr;
  std::shared_ptr<session_registry> sessions;
  const clock* time = nullptr;
  std::shared_ptr<directory> where; ///< kept up to date for code outside the actor system
  std::uint32_t max_restarts = 10;
  std::chrono::nanoseconds restart_window{std::chrono::seconds(10)};
};

/// Starts every actor of an engine. When an actor dies, the supervisor starts a new one on the same state and
/// sends the new address to the actors that need it. After more than `max_restarts` deaths within
/// `restart_window`, an actor is lost: it is not restarted, and `directory::faults` records the loss. If a
/// model's scheduler or verifier is lost, that model is out of service; if the KV pool or fan_out is lost,
/// all models are. The requests of a model that is out of service end, and new ones are refused. If a draft
/// worker is lost, its model decodes without that drafter. actors/supervisor_state.hpp has the steps.
///
/// | actor that died | what its successor finds | what may be lost (who sends it again) |
/// | --- | --- | --- |
/// | scheduler | requests, rounds in flight | results (verifier), submissions (sessions), pool answers (KV pool) |
/// | kv_pool | tables, budget | commands (scheduler, which also lists the leases that requests hold) |
/// | target_verifier | rounds waiting and enqueued | plans of rounds (scheduler) |
/// | draft_worker | the stream with its work | draft requests (verifier) |
/// | fan_out | the registry of sessions | events (nobody: all requests of that time fail with device_lost) |
using supervisor_actor =
    caf::typed_actor<caf::replies_to<protocol::ready_question>::with<protocol::ready_answer>>;

struct supervisor_context {
  supervisor_context() = default;
  static inline const char* name = "supervisor";
  std::unique_ptr<supervisor_state> supervision;
  std::map<part, caf::strong_actor_ptr> addresses;          ///< of the living actors
  std::map<part, protocol::worker_lost_event> lost_workers; ///< for actors that are started later
};

supervisor_actor::behavior_type supervisor(supervisor_actor::stateful_pointer<supervisor_context> self,
                                           supervisor_parts parts);

} // namespace paceline::actors
