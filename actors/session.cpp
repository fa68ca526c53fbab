#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using self_pointer = session_actor::stateful_pointer<session_shell>;

void submit(self_pointer self) {
  const auto& shell = self->state;
  if (!shell.started) return;
  self->send(shell.scheduler, submit_command{shell.client.target, shell.client.drafter, shell.client.credit});
  if (shell.cancelled) self->send(shell.scheduler, cancel_command{shell.client.target->id()});
}

} // namespace

session_actor::behavior_type session(self_pointer self, session_client client, scheduler_actor scheduler,
                                     fan_out_actor fan_out) {
  self->state.client = std::move(client);
  self->state.scheduler = std::move(scheduler);
  self->state.fan_out = std::move(fan_out);
  self->attach_functor([ended = self->state.client.ended] { ended(); });
  self->set_exit_handler([=](const caf::exit_msg& message) { // the engine ends
    token_event event;
    event.request = self->state.client.target->id();
    event.finish = finish_reason::cancelled;
    self->state.client.sink(event);
    self->quit(message.reason);
  });
  return {
      [=](const start_event&) {
        auto& shell = self->state;
        // Registered first: whatever the submission causes finds its way back.
        self->send(shell.fan_out,
                   register_command{shell.client.target->id(), caf::actor_cast<caf::strong_actor_ptr>(self)});
        shell.started = true;
        submit(self);
      },
      [=](const session_event& m) {
        auto& shell = self->state;
        const auto& event = (*m.events)[m.index];
        const auto end = std::uint64_t{event.first_index} + event.tokens.size();
        const bool known = !event.tokens.empty() && end <= shell.num_output;
        if (known && event.finish == finish_reason::none) return; // reported again after a restart
        shell.num_output = std::max(shell.num_output, end);
        shell.client.sink(event);
        if (event.finish != finish_reason::none) self->quit();
      },
      [=](const cancel_command& m) {
        self->state.cancelled = true;
        self->send(self->state.scheduler, m);
      },
      [=](const grant_command& m) {
        auto& credit = self->state.client.credit;
        credit += m.tokens;
        self->send(self->state.scheduler, grant_command{m.request, credit});
      },
      [=](const resubmit_event& m) {
        auto now = caf::actor_cast<scheduler_actor>(m.scheduler);
        if (m.model != self->state.client.model || now == self->state.scheduler) return;
        self->state.scheduler = std::move(now);
        submit(self);
      },
  };
}

} // namespace paceline::actors
