#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

fan_out_actor::behavior_type fan_out(fan_out_actor::stateful_pointer<fan_out_shell> self,
                                     session_table* sessions, std::shared_ptr<actor_meter> meter) {
  self->set_exit_handler([=](const caf::exit_msg& message) { // the engine ends: so do its sessions
    for (const auto& [request, session] : *sessions)
      self->send_exit(caf::actor_cast<session_actor>(session), message.reason);
    sessions->clear();
    self->quit(message.reason);
  });
  return {
      [=](const register_command& m) {
        sessions->insert_or_assign(m.request, m.session);
        // It may have been given the handle of a scheduler that died before this registration.
        for (const auto& [model, news] : self->state.schedulers)
          self->send(caf::actor_cast<session_actor>(m.session), news);
      },
      [=](const event_batch& m) {
        meter->take(self->mailbox().size());
        for (std::size_t i = 0; i < m.events->size(); ++i) {
          const auto& event = (*m.events)[i];
          const auto it = sessions->find(event.request);
          if (it == sessions->end()) continue; // it has had its last event
          self->send(caf::actor_cast<session_actor>(it->second), session_event{m.events, i});
          if (event.finish != finish_reason::none) sessions->erase(it);
        }
      },
      [=](const resubmit_event& m) {
        self->state.schedulers[m.model] = m;
        for (const auto& [request, session] : *sessions)
          self->send(caf::actor_cast<session_actor>(session), m);
      },
  };
}

} // namespace paceline::actors
