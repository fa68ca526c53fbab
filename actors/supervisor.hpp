#pragma once

#include "actors/behaviors.hpp"
#include "actors/directory.hpp"
#include "actors/supervisor_state.hpp"

#include <map>
#include <memory>
#include <vector>

namespace paceline::actors {

/// What the actors of one model run on. Owned by the engine; outlives the supervisor.
struct model_parts {
  scheduling::scheduler_state* scheduler = nullptr;
  target_verifier_state* verifier = nullptr;
  std::vector<draft_worker_state*> draft_workers; ///< by drafter index; null: this drafter has none
};

struct supervisor_parts {
  std::vector<model_parts> models;
  kv_pool_state* kv_pool = nullptr;
  std::shared_ptr<session_registry> sessions;
  const clock* time = nullptr;
  std::shared_ptr<directory> where; ///< kept up to date for the engine's edge
  std::uint32_t max_restarts = 10;
  std::chrono::nanoseconds restart_window{std::chrono::seconds(10)};
};

/// Starts every actor of an engine and starts it again when it dies, on the state it had; tells its peers.
/// After more than `max_restarts` deaths within the window an actor stays dead, and the directory's faults
/// name it. Without its scheduler or verifier a model serves no more, without the KV pool or fan_out none
/// does: their requests end, new ones are refused. Without a draft worker its model decodes plainly. What is
/// done when: actors/supervisor_state.hpp.
///
/// | what died | what its successor finds | what may be lost, and who repairs it |
/// | --- | --- | --- |
/// | scheduler | requests, rounds in flight | results: the verifier reports again; submissions: sessions repeat; answers of the pool: asked again |
/// | kv_pool | tables, budget | commands: the scheduler asks again and lists who is alive |
/// | target_verifier | rounds waiting and enqueued | compositions: the scheduler plans them again |
/// | draft_worker | the stream with its work | requests: the verifier asks again |
/// | fan_out | the registry of sessions | events: positions would be missing, so sessions that submitted before fail with device_lost |
using supervisor_actor =
    caf::typed_actor<caf::replies_to<protocol::ready_question>::with<protocol::ready_answer>>;

struct supervisor_context {
  supervisor_context() = default;
  static inline const char* name = "supervisor";
  std::unique_ptr<supervisor_state> supervision;
  std::map<part, caf::strong_actor_ptr> addresses;          ///< of those alive
  std::map<part, protocol::worker_lost_event> lost_workers; ///< for whoever is started later
};

supervisor_actor::behavior_type supervisor(supervisor_actor::stateful_pointer<supervisor_context> self,
                                           supervisor_parts parts);

} // namespace paceline::actors
