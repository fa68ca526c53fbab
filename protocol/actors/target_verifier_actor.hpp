#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct round_command;
struct verify_request;
struct round_passed_event;
struct acknowledge_command;
struct link_command;
struct worker_lost_event;

/// Enqueues rounds on the target's stream and reports their results.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | round_command | scheduler | a round is composed | - | no |
/// | verify_request | draft_worker | its draft program is enqueued | - | yes: answered requests are ignored |
/// | round_passed_event | itself | the round's program is complete | - | yes |
/// | acknowledge_command | scheduler | the scheduler has applied a result | - | yes |
/// | link_command | supervisor | a peer was started | - | yes |
/// | worker_lost_event | supervisor | a draft worker failed for good | - | yes |
using target_verifier_actor =
    caf::typed_actor<caf::reacts_to<round_command>, caf::reacts_to<verify_request>,
                     caf::reacts_to<round_passed_event>, caf::reacts_to<acknowledge_command>,
                     caf::reacts_to<link_command>, caf::reacts_to<worker_lost_event>>;

} // namespace paceline::protocol
