#pragma once

#include "runtime/base/token_event.hpp"

#include <string>

namespace paceline::wire {

/// One sentence for users about why a request was not faster. It names the drafters, the numbers of drafted
/// and accepted tokens, and what limited the speed in most rounds. If drafter `auto` compared drafters, it
/// also gives the tokens and the time that `auto` expected of a draft. Empty for a request that had no
/// drafter, or no room for a draft.
std::string explain(const speculation_stats& stats);

} // namespace paceline::wire
