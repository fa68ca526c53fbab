#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using session_pointer = session_actor::stateful_pointer<session_context>;

/// Delivers the client's last event and destroys the sink. This releases what the sink holds, and no event
/// can follow.
void end_client(client_line& line, const token_event& event) {
  const auto sink = std::exchange(line.sink, nullptr);
  sink(event);
}

std::shared_ptr<client_line> open(session_client client) {
  const session_terms terms{client.request.id(), client.model, client.credit, client.own_window};
  return std::make_shared<client_line>(client_line{session_state<scheduler_actor>(terms),
                                                   std::move(client.request), client.drafter,
                                                   std::move(client.sink), std::move(client.ended)});
}

/// Called when the session ends, by its own decision or by a crash; after a crash the client still needs its
/// last event.
void close(client_line& line) noexcept {
  const auto actions = line.state.on_crash();
  if (actions.cancel) caf::anon_send(line.state.scheduler(), cancel_command{line.state.request()});
  try {
    if (actions.last && line.sink) end_client(line, *actions.last);
  } catch (...) { // a sink must not throw; if it did, the session has already ended
  }
  line.request = {};
  line.ended();
}

/// `event` is the event that arrived, or null.
void carry_out(session_pointer self, const session_actions& actions, const token_event* event = nullptr) {
  auto& line = *self->state.line;
  const auto& scheduler = line.state.scheduler();
  const auto request = line.state.request();
  if (actions.deliver) actions.over ? end_client(line, *event) : line.sink(*event);
  if (actions.submit) self->send(scheduler, submit_command{line.request, line.drafter, line.state.credit()});
  if (actions.credit) self->send(scheduler, grant_command{request, *actions.credit});
  if (actions.cancel) self->send(scheduler, cancel_command{request});
  if (actions.last) end_client(line, *actions.last);
  if (actions.over) self->quit();
}

} // namespace

session_actor::behavior_type session(session_pointer self, session_client client) {
  self->state.line = open(std::move(client));
  auto* const state = &self->state.line->state;
  self->attach_functor([line = self->state.line] { close(*line); });
  self->set_exit_handler([=](const caf::exit_msg& message) { // sent when the engine stops
    carry_out(self, state->on_shutdown());
    self->quit(message.reason);
  });
  return {
      [=](const start_event& m) { carry_out(self, state->on_start(m.scheduler)); },
      [=](const session_event& m) {
        const auto& event = (*m.events)[m.index];
        carry_out(self, state->on_event(event), &event);
      },
      [=](const cancel_command&) { carry_out(self, state->on_cancel()); },
      [=](const grant_command& m) { carry_out(self, state->on_grant(m.tokens)); },
      [=](const resubmit_event& m) { carry_out(self, state->on_scheduler_restarted(m.model, m.scheduler)); },
      [=](const out_of_service_event& m) { carry_out(self, state->on_out_of_service(m.model, m.why)); },
      [=](const events_lost_event&) { carry_out(self, state->on_events_lost()); },
  };
}

} // namespace paceline::actors
