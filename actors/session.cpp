#include "actors/behaviors.hpp"

#include "runtime/base/final_event.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

namespace {

using self_pointer = session_actor::stateful_pointer<session_shell>;

/// Gives the client its last event. The sink goes with it: what it holds is released, and nothing comes
/// after.
void end_client(client_line& line, const token_event& event) {
  const auto sink = std::exchange(line.sink, nullptr);
  sink(event);
}

void open(session_shell& shell, session_client client) {
  shell.line = std::make_shared<client_line>();
  shell.line->request = client.request.id();
  shell.line->sink = std::exchange(client.sink, nullptr);
  shell.line->ended = std::exchange(client.ended, nullptr);
  shell.client = std::move(client);
}

/// The session is over, by its own decision or by a crash; then its client still waits for an end.
void close(client_line& line) noexcept {
  if (line.sink) {
    if (line.scheduler) caf::anon_send(line.scheduler, cancel_command{line.request});
    try {
      end_client(line, final_event(line.request, finish_reason::error,
                                   error{errc::device_lost, "the request's session was lost"}));
    } catch (...) { // a sink must not throw; one that did has ended the session already
    }
  }
  line.scheduler = nullptr;
  line.ended();
}

void submit(self_pointer self) {
  const auto& shell = self->state;
  if (!shell.started) return;
  const auto& scheduler = shell.line->scheduler;
  self->send(scheduler, submit_command{shell.client.request, shell.client.drafter, shell.client.credit});
  if (shell.cancelled) self->send(scheduler, cancel_command{shell.line->request});
}

/// The sink has returned: where the client leaves it to the engine, that is its room for as many tokens more.
/// Granted by the half window, so that few messages are spent on it.
void repay(self_pointer self) {
  auto& shell = self->state;
  const auto window = shell.client.own_window;
  const auto taken = shell.num_output + shell.num_scores;
  if (window == 0 || taken + window < shell.client.credit + window / 2) return;
  shell.client.credit = taken + window;
  self->send(shell.line->scheduler, grant_command{shell.line->request, shell.client.credit});
}

void fail(self_pointer self, const error& why) {
  auto& line = *self->state.line;
  if (self->state.started) self->send(line.scheduler, cancel_command{line.request});
  end_client(line, final_event(line.request, finish_reason::error, why));
  self->quit();
}

} // namespace

session_actor::behavior_type session(self_pointer self, session_client client) {
  open(self->state, std::move(client));
  self->attach_functor([line = self->state.line] { close(*line); });
  self->set_exit_handler([=](const caf::exit_msg& message) { // the engine ends
    auto& line = *self->state.line;
    end_client(line, final_event(line.request, finish_reason::cancelled));
    self->quit(message.reason);
  });
  return {
      [=](const start_event& m) {
        auto& shell = self->state;
        // News of a restarted scheduler may have come before: they are newer.
        if (!shell.line->scheduler) shell.line->scheduler = m.scheduler;
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
        shell.num_scores += event.prompt_logprobs.size();
        if (event.finish == finish_reason::none) {
          shell.line->sink(event);
          return repay(self);
        }
        end_client(*shell.line, event);
        self->quit();
      },
      [=](const cancel_command& m) {
        auto& shell = self->state;
        shell.cancelled = true;
        if (shell.started) self->send(shell.line->scheduler, m);
      },
      [=](const grant_command& m) {
        auto& shell = self->state;
        shell.client.credit += m.tokens;
        if (shell.started) self->send(shell.line->scheduler, grant_command{m.request, shell.client.credit});
      },
      [=](const resubmit_event& m) {
        auto& shell = self->state;
        if (m.model != shell.client.model || m.scheduler == shell.line->scheduler) return;
        shell.line->scheduler = m.scheduler;
        submit(self);
      },
      [=](const out_of_service_event& m) {
        if (m.model == self->state.client.model) fail(self, m.why);
      },
      [=](const events_lost_event&) {
        // A stream with a hole is worse than one that ends. Who has not submitted has missed nothing.
        if (self->state.started) fail(self, error{errc::device_lost, "the event actor was lost"});
      },
  };
}

} // namespace paceline::actors
