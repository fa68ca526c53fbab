#pragma once

#include "actors/draft_worker_state.hpp"
#include "actors/fault_book.hpp"
#include "actors/kv_pool_state.hpp"
#include "actors/session_registry.hpp"
#include "actors/session_state.hpp"
#include "actors/target_verifier_state.hpp"
#include "protocol/type_ids.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/scheduling/scheduler_state.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

/// Behaviours of the actors. A behaviour passes a message to a method of its state machine (`*_state`) and
/// carries out the actions that the method returns. The engine owns the state machines (except those of
/// sessions). They outlive the actors, so a restarted actor continues with the state of its predecessor.
namespace paceline::actors {

using session_registry = basic_session_registry<protocol::session_actor>;

/// Counts the work of one actor for metrics; kept across restarts.
struct actor_meter {
  std::atomic<std::uint64_t> num_messages{0};
  std::atomic<std::uint64_t> mailbox_depth{0}; ///< messages that waited when the actor last took one
  std::atomic<std::uint64_t> num_restarts{0};
  std::atomic<bool> failing{false}; ///< the actor lives, but the device it works with fails

  /// Called by the actor when it takes a message while `num_waiting` more wait.
  void take(std::size_t num_waiting) noexcept {
    num_messages.fetch_add(1, std::memory_order_relaxed);
    mailbox_depth.store(num_waiting, std::memory_order_relaxed);
  }
};

struct scheduler_peers {
  scheduler_peers() = default;
  static inline const char* name = "scheduler";
  protocol::target_verifier_actor verifier;
  protocol::kv_pool_actor kv_pool;
  protocol::fan_out_actor fan_out;
  bool ticking = false; ///< a `tick_event` is under way
};
protocol::scheduler_actor::behavior_type
scheduler(protocol::scheduler_actor::stateful_pointer<scheduler_peers> self,
          scheduling::scheduler_state* state, const clock* time, model_number model,
          std::shared_ptr<const session_registry> sessions, std::shared_ptr<fault_book> faults,
          std::shared_ptr<actor_meter> meter);

struct kv_pool_peers {
  kv_pool_peers() = default;
  static inline const char* name = "kv_pool";
  /// For each model, the scheduler that sent its last `pool_batch_command`.
  std::unordered_map<model_number, protocol::scheduler_actor> schedulers;
};
protocol::kv_pool_actor::behavior_type kv_pool(protocol::kv_pool_actor::stateful_pointer<kv_pool_peers> self,
                                               kv_pool_state* state, std::shared_ptr<actor_meter> meter);

struct verifier_peers {
  verifier_peers() = default;
  static inline const char* name = "target_verifier";
  protocol::scheduler_actor scheduler;
  protocol::fan_out_actor fan_out;
  std::vector<protocol::draft_worker_actor> draft_workers;
};
protocol::target_verifier_actor::behavior_type
target_verifier(protocol::target_verifier_actor::stateful_pointer<verifier_peers> self,
                target_verifier_state* state, protocol::link_command peers,
                std::shared_ptr<actor_meter> meter);

struct draft_worker_peers {
  draft_worker_peers() = default;
  static inline const char* name = "draft_worker";
};
protocol::draft_worker_actor::behavior_type
draft_worker(protocol::draft_worker_actor::stateful_pointer<draft_worker_peers> self,
             draft_worker_state* state, std::shared_ptr<actor_meter> meter);

struct fan_out_peers {
  fan_out_peers() = default;
  static inline const char* name = "fan_out";
};
protocol::fan_out_actor::behavior_type fan_out(protocol::fan_out_actor::stateful_pointer<fan_out_peers> self,
                                               std::shared_ptr<const session_registry> sessions,
                                               std::shared_ptr<actor_meter> meter);

/// What a session needs to serve its client.
struct session_client {
  scheduling::admitted_request request;
  model_number model;
  drafter_index drafter = plain_decoding;
  std::uint64_t credit = 0;
  /// 0: the client grants credit. Otherwise the session grants it: the request may commit this many tokens
  /// more than the sink has taken.
  std::uint32_t own_window = 0;
  /// Called on an actor thread. The last call, and no other, has finish != none. Destroyed before `ended` is
  /// called.
  std::function<void(const token_event&)> sink;
  std::function<void()> ended; ///< called once, when the session has ended
};
/// The part of a session that outlives the actor's state, so that the client gets its last event even if the
/// session crashes. Used only by the session's actor and by the function that CAF calls when this actor ends.
struct client_line {
  session_state<protocol::scheduler_actor> state;
  scheduling::admitted_request request;
  drafter_index drafter = plain_decoding;
  std::function<void(const token_event&)> sink; ///< null once the last event was delivered
  std::function<void()> ended;
};
struct session_context {
  session_context() = default;
  static inline const char* name = "session";
  std::shared_ptr<client_line> line;
};
protocol::session_actor::behavior_type
session(protocol::session_actor::stateful_pointer<session_context> self, session_client client);

} // namespace paceline::actors
