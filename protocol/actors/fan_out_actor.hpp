#pragma once

#include "protocol/type_ids.hpp"

namespace paceline::protocol {

/// Takes the events of a round off the per-round path and hands each to its session.
///
/// | message | sent by | when | reply | safe to repeat |
/// | --- | --- | --- | --- | --- |
/// | register_command | session | before it submits | - | yes |
/// | event_batch | target_verifier, scheduler | once a round or decision | - | yes: sessions drop known output |
/// | resubmit_event | supervisor | a scheduler was restarted | - | yes |
using fan_out_actor = caf::typed_actor<caf::reacts_to<register_command>, caf::reacts_to<event_batch>,
                                       caf::reacts_to<resubmit_event>>;

} // namespace paceline::protocol
