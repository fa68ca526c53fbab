#include "actors/behaviors.hpp"

#include "runtime/base/check.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using target_verifier_pointer = target_verifier_actor::stateful_pointer<verifier_peers>;

void report(target_verifier_pointer self, const scheduling::round_result& result) {
  if (result.events.empty() || !self->state.fan_out) return;
  self->send(self->state.fan_out,
             event_batch{std::make_shared<const std::vector<token_event>>(result.events)});
}

void carry_out(target_verifier_pointer self, const target_verifier_state& state,
               const verifier_actions& actions) {
  const auto& workers = self->state.draft_workers;
  for (const auto& ask : actions.asks)
    if (const auto d = ask.drafter.value; d < workers.size() && workers[d])
      self->send(workers[d], draft_request{ask.plan, ask.after, state.current_epoch(), self});
  for (const auto& watch : actions.watches) {
    // The action may run on the device's thread, so it only sends a message.
    target_verifier_actor me = self;
    watch.fence.when_passed([me, round = watch.round] { caf::anon_send(me, round_passed_event{round}); });
  }
  for (const auto& result : actions.reports) {
    report(self, *result); // clients come first: their tokens need not wait for the next composition
    if (self->state.scheduler) self->send(self->state.scheduler, round_done_event{result});
  }
}

void link(verifier_peers& context, const link_command& peers) {
  if (peers.scheduler) context.scheduler = peers.scheduler;
  if (peers.fan_out) context.fan_out = peers.fan_out;
}

} // namespace

target_verifier_actor::behavior_type target_verifier(target_verifier_pointer self,
                                                     target_verifier_state* state, link_command peers,
                                                     std::shared_ptr<actor_meter> meter) {
  const auto broken = state->check_invariants();
  PACELINE_CHECK(broken.empty(), broken);
  link(self->state, peers);
  self->state.draft_workers = peers.draft_workers;
  // Read before restart(). These are the rounds that the scheduler need not plan again.
  const auto known = state->known_rounds();
  carry_out(self, *state, state->restart());
  if (self->state.scheduler) self->send(self->state.scheduler, rounds_known_event{self, known});

  const auto act = [=](const verifier_actions& actions) {
    meter->take(self->mailbox().size());
    carry_out(self, *state, actions);
  };
  return {
      [=](const round_command& m) { act(state->on_round(m.plan)); },
      [=](const verify_request& m) { act(state->on_drafts(m.round, m.drafter, m.from, m.drafts, m.ready)); },
      [=](const round_passed_event& m) { act(state->on_passed(m.round)); },
      [=](const acknowledge_command& m) {
        state->acknowledge(m.round);
        act({});
      },
      [=](const worker_lost_event& m) { act(state->on_worker_lost(m.drafter, m.done)); },
      [=](const link_command& m) {
        link(self->state, m);
        if (m.scheduler) {
          self->send(self->state.scheduler, rounds_known_event{self, state->known_rounds()});
          act(state->report_again());
        }
        if (m.draft_workers.empty()) return;
        const auto before = std::exchange(self->state.draft_workers, m.draft_workers);
        for (std::uint32_t i = 0; i < m.draft_workers.size(); ++i)
          if (m.draft_workers[i] && (i >= before.size() || m.draft_workers[i] != before[i]))
            act(state->on_worker_replaced(drafter_index{i}));
      },
  };
}

} // namespace paceline::actors
