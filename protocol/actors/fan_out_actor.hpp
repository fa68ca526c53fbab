#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct event_batch;

/// Hands each event of a round to the session of its request, so that the verifier and the scheduler do not
/// have to.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | event_batch | target_verifier, scheduler | after each round, and after decisions of the scheduler that concern clients | - | yes: sessions drop known output |
using fan_out_actor = caf::typed_actor<caf::reacts_to<event_batch>>;

} // namespace paceline::protocol
