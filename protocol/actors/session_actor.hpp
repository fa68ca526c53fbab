#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct start_event;
struct session_event;
struct cancel_command;
struct grant_command;
struct resubmit_event;
struct events_lost_event;
struct out_of_service_event;

/// Serves one client request: submits it, hands its events to the client's sink, and ends with the last
/// event.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | start_event | engine | the session is registered | - | yes: a started session ignores it |
/// | session_event | fan_out | a round or decision concerned the request | - | yes: known output is dropped |
/// | cancel_command | engine | the client asked, or left | - | yes |
/// | grant_command | engine | the client has read | - | no: credit adds up |
/// | resubmit_event | supervisor | the scheduler was restarted | - | yes |
/// | events_lost_event | supervisor | fan_out was restarted | - | yes |
/// | out_of_service_event | supervisor | a part the model needs failed for good | - | yes |
using session_actor = caf::typed_actor<caf::reacts_to<start_event>, caf::reacts_to<session_event>,
                                       caf::reacts_to<cancel_command>, caf::reacts_to<grant_command>,
                                       caf::reacts_to<resubmit_event>, caf::reacts_to<events_lost_event>,
                                       caf::reacts_to<out_of_service_event>>;

} // namespace paceline::protocol
