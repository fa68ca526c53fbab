#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct submit_command;
struct cancel_command;
struct grant_command;
struct lease_batch_event;
struct round_done_event;
struct rounds_known_event;
struct link_command;
struct out_of_service_event;
struct worker_lost_event;
struct tick_event;
struct drain_command;
struct scheduler_question;
struct scheduler_answer;

/// Keeps the state of every request of one model and composes its rounds.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | submit_command | session | a request starts | - | yes: a known request is ignored |
/// | cancel_command | session | the client asked, or left | - | yes |
/// | grant_command | session | the client has read | - | yes: it names the total |
/// | lease_batch_event | kv_pool | the pool answers, or blocks were freed | - | yes |
/// | round_done_event | target_verifier | a round's fence has passed | - | yes: a known round is ignored |
/// | rounds_known_event | target_verifier | the verifier starts or gets a new scheduler | - | yes |
/// | link_command | supervisor | a peer was started | - | yes |
/// | out_of_service_event | supervisor | a part the model needs failed for good | - | yes |
/// | worker_lost_event | supervisor | a draft worker failed for good | - | yes |
/// | tick_event | itself | while requests are active | - | yes |
/// | drain_command | engine | shutdown begins | - | yes |
/// | scheduler_question | engine | metrics | scheduler_answer | yes |
using scheduler_actor = caf::typed_actor<
    caf::reacts_to<submit_command>, caf::reacts_to<cancel_command>, caf::reacts_to<grant_command>,
    caf::reacts_to<lease_batch_event>, caf::reacts_to<round_done_event>, caf::reacts_to<rounds_known_event>,
    caf::reacts_to<link_command>, caf::reacts_to<out_of_service_event>, caf::reacts_to<worker_lost_event>,
    caf::reacts_to<tick_event>, caf::reacts_to<drain_command>,
    caf::replies_to<scheduler_question>::with<scheduler_answer>>;

} // namespace paceline::protocol
