#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

fan_out_actor::behavior_type fan_out(fan_out_actor::stateful_pointer<fan_out_peers> self,
                                     std::shared_ptr<const session_registry> sessions,
                                     std::shared_ptr<actor_meter> meter) {
  return {
      [=](const event_batch& m) {
        meter->take(self->mailbox().size());
        for (std::size_t i = 0; i < m.events->size(); ++i)
          if (const auto session = sessions->find((*m.events)[i].request)) // else its client has had its end
            self->send(session, session_event{m.events, i});
      },
  };
}

} // namespace paceline::actors
