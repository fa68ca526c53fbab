#include "actors/behaviors.hpp"

namespace paceline::actors {

using namespace protocol; // the messages

fan_out_actor::behavior_type fan_out(fan_out_actor::stateful_pointer<fan_out_peers> self,
                                     std::shared_ptr<const session_registry> sessions,
                                     std::shared_ptr<actor_meter> meter) {
  return {
      [=](const event_batch& m) {
        meter->take(self->mailbox().size());
        sessions->route(*m.events, [&](const session_actor& session, std::size_t index) {
          self->send(session, session_event{m.events, index});
        });
      },
  };
}

} // namespace paceline::actors
