#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct draft_request;

/// Enqueues the draft programs of one drafter on its stream.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | draft_request | target_verifier | the group's previous round is enqueued | - (verify_request to the sender, at once) | yes: drafts again |
using draft_worker_actor = caf::typed_actor<caf::reacts_to<draft_request>>;

} // namespace paceline::protocol
