#pragma once

#include "engine/snapshot.hpp"
#include "protocol/messages.hpp"

namespace paceline {

struct model_unit;

// Collects the counters of a model's actors and devices for a snapshot.

void add_scheduler_counters(model_counters& out, const protocol::scheduler_answer& from,
                            const model_unit& unit);
void add_pool_gauges(model_counters& out, const protocol::pool_answer& from, const model_unit& unit);
void add_device_times(model_counters& out, const model_unit& unit);

} // namespace paceline
