#pragma once

#include "runtime/base/token_event.hpp"

#include <string>

namespace paceline::wire {

/// "Why was it not faster?" in one sentence: the drafters, how much was drafted and accepted, what the drafts
/// promised for which time (if drafter `auto` weighed that), and what limited most rounds. Empty for a
/// request that had no drafter, or no room for a draft.
std::string explain(const speculation_stats& stats);

} // namespace paceline::wire
