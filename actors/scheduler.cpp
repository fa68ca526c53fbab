#include "actors/behaviors.hpp"

#include "runtime/base/check.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using scheduler_pointer = scheduler_actor::stateful_pointer<scheduler_peers>;
constexpr auto tick_interval = std::chrono::milliseconds(50);

/// Sends what the state machine decided: pool commands first, because rounds use the memory, then rounds,
/// then final events.
void carry_out(scheduler_pointer self, const scheduling::scheduler_state& state, model_number model,
               scheduling::decisions decisions) {
  auto& context = self->state;
  if (!decisions.pool.empty() && context.kv_pool)
    self->send(context.kv_pool, pool_batch_command{model, self, std::move(decisions.pool)});
  if (context.verifier)
    for (auto& plan : decisions.rounds)
      self->send(context.verifier,
                 round_command{std::make_shared<const scheduling::round_plan>(std::move(plan))});
  if (!decisions.events.empty() && context.fan_out)
    self->send(context.fan_out,
               event_batch{std::make_shared<const std::vector<token_event>>(std::move(decisions.events))});
  if (!context.ticking && state.active()) {
    context.ticking = true;
    self->delayed_send(self, tick_interval, tick_event{});
  }
}

} // namespace

scheduler_actor::behavior_type scheduler(scheduler_pointer self, scheduling::scheduler_state* state,
                                         const clock* time, model_number model,
                                         std::shared_ptr<const session_registry> sessions,
                                         std::shared_ptr<fault_book> faults,
                                         std::shared_ptr<actor_meter> meter) {
  const auto broken = state->check_invariants();
  PACELINE_CHECK(broken.empty(), broken);
  const auto act = [=](scheduling::decisions decisions) {
    meter->take(self->mailbox().size());
    meter->failing.store(state->device_lost(), std::memory_order_relaxed);
    for (auto& [drafter, why] : decisions.failed_drafters)
      faults->note(drafter_of(model, drafter), std::move(why));
    carry_out(self, *state, model, std::move(decisions));
  };
  return {
      [=](const submit_command& m) { act(state->submit(m.request, m.drafter, m.credit, time->now())); },
      [=](const cancel_command& m) { act(state->cancel(m.request, time->now())); },
      [=](const grant_command& m) { act(state->grant(m.request, m.tokens, time->now())); },
      [=](const lease_batch_event& m) { act(state->on_leases(m.leases, m.blocks_freed, time->now())); },
      [=](const round_done_event& m) {
        if (self->state.verifier) self->send(self->state.verifier, acknowledge_command{m.result->round});
        act(state->on_round_done(*m.result, time->now()));
      },
      [=](const rounds_known_event& m) {
        self->state.verifier = m.verifier;
        act(state->on_rounds_lost(m.rounds, time->now()));
      },
      [=](const link_command& m) {
        auto& context = self->state;
        if (m.fan_out) context.fan_out = m.fan_out;
        if (m.kv_pool) {
          context.kv_pool = m.kv_pool;
          act(state->on_pool_restarted(time->now()));
        }
      },
      [=](const out_of_service_event& m) { act(state->take_out_of_service(m.why)); },
      [=](const worker_lost_event& m) { act(state->on_worker_lost(m.drafter, time->now())); },
      [=](const tick_event&) {
        self->state.ticking = false;
        act(state->on_tick(time->now(), [&](request_id id) { return sessions->contains(id); }));
      },
      [=](const drain_command&) { state->drain(); },
      [=](const scheduler_question&) -> scheduler_answer {
        return {state->num_running(), state->num_waiting(), state->counters()};
      },
  };
}

} // namespace paceline::actors
