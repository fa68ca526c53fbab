#pragma once

#include <caf/typed_actor.hpp>

namespace paceline::protocol {

// The message structs are defined in protocol/messages.hpp, which includes this header.
struct pool_batch_command;
struct pool_question;
struct pool_answer;

/// Owns all KV memory: every pool of every model and drafter.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | pool_batch_command | scheduler | a decision needs memory; one message for each decision | - (lease_batch_event to the sender if there is an answer, and to other schedulers whose refused commands may now succeed) | yes: late or repeated commands are stale |
/// | pool_question | engine | metrics | pool_answer | yes |
using kv_pool_actor =
    caf::typed_actor<caf::reacts_to<pool_batch_command>, caf::replies_to<pool_question>::with<pool_answer>>;

} // namespace paceline::protocol
