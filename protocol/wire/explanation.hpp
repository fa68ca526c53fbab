#pragma once

#include "runtime/base/token_event.hpp"

#include <string>

namespace paceline::wire {

/// One sentence for users about why a request was not faster: the drafters, the number of drafted and
/// accepted tokens, the expected tokens and the time of drafts (if drafter `auto` compared them), and what
/// limited the speed in most rounds. Empty for a request that had no drafter, or no room for a draft.
std::string explain(const speculation_stats& stats);

} // namespace paceline::wire
