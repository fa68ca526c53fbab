#include "actors/behaviors.hpp"

#include <algorithm>

namespace paceline::actors {

using namespace protocol; // the messages

draft_worker_actor::behavior_type draft_worker(draft_worker_actor::stateful_pointer<draft_worker_shell> self,
                                               device::stream* stream, scheduling::draft_runner* runner,
                                               std::uint32_t drafter, std::uint32_t pool,
                                               std::shared_ptr<actor_meter> meter) {
  return {
      [=](const draft_request& m) {
        meter->take(self->mailbox().size());
        auto drafts = std::make_shared<scheduling::draft_batch>();
        drafts->pool = pool;
        const auto ahead = [&](const auto& item) {
          return item.worker == drafter && item.ahead != foresight::off;
        };
        if (std::ranges::any_of(m.plan->items, ahead) && !m.after.passed())
          stream->submit("ahead", {}, [runner, plan = m.plan, verdict = m.after](device::ops& ops) {
            runner->run_ahead(ops, *plan, verdict);
          });
        drafts->submission = stream->submitted() + 1; // this stream has no other submitter
        auto work = [runner, plan = m.plan, drafts](device::ops& ops) { runner->run(ops, *plan, *drafts); };
        auto ready = stream->submit("draft", {m.after}, std::move(work));
        // The answer goes out at once: the verify program will wait for the fence, not the verifier.
        self->send(caf::actor_cast<target_verifier_actor>(self->current_sender()),
                   verify_request{m.plan->round, drafter, std::move(drafts), std::move(ready), m.from});
      },
  };
}

} // namespace paceline::actors
