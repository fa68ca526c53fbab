#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

draft_worker_actor::behavior_type draft_worker(draft_worker_actor::stateful_pointer<draft_worker_peers> self,
                                               draft_worker_state* state,
                                               std::shared_ptr<actor_meter> meter) {
  return {
      [=](const draft_request& m) {
        meter->take(self->mailbox().size());
        auto made = state->on_request(m.plan, m.after);
        // The answer is sent at once. The verify program waits for the fence; the verifier does not.
        self->send(m.reply_to, verify_request{m.plan->round, state->drafter(), std::move(made.drafts),
                                              std::move(made.ready), m.from});
      },
  };
}

} // namespace paceline::actors
