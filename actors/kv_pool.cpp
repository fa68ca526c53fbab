#include "actors/behaviors.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::actors {

using namespace protocol; // the messages

kv_pool_actor::behavior_type kv_pool(kv_pool_actor::stateful_pointer<kv_pool_peers> self,
                                     kv_pool_state* state, std::shared_ptr<actor_meter> meter) {
  const auto broken = state->check_invariants();
  PACELINE_CHECK(broken.empty(), broken);
  return {
      [=](const pool_batch_command& m) {
        meter->take(self->mailbox().size());
        auto& schedulers = self->state.schedulers;
        schedulers[m.model] = m.reply_to;
        auto answers = state->handle(m.model, m.commands);
        const bool freed = std::ranges::find(answers.freed_models, m.model) != answers.freed_models.end();
        if (!answers.leases.empty() || freed)
          self->send(schedulers[m.model], lease_batch_event{std::move(answers.leases), freed});
        // Blocks freed by one model's requests may be used by another model.
        for (auto other : answers.freed_models)
          if (other != m.model && schedulers.contains(other))
            self->send(schedulers[other], lease_batch_event{{}, true});
      },
      [=](const pool_question& m) -> pool_answer {
        pool_answer answer;
        for (auto pool : state->pools_of(m.model)) {
          answer.usage.push_back(state->manager().usage(pool));
          answer.counters.push_back(state->manager().counters(pool));
        }
        return answer;
      },
  };
}

} // namespace paceline::actors
