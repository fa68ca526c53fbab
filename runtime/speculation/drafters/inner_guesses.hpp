#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <memory>
#include <vector>

// The inner drafter of a cascade: its draft tokens are guesses of the tokens that the cascade's model drafts.

namespace paceline::speculation {

/// Makes the inner drafter that option `inner` of `parts` names. Error: invalid_argument if it names a kind
/// that cannot be an inner drafter. An inner drafter is in-line and learns from tokens alone.
expected<std::shared_ptr<drafter>> make_inner_drafter(const drafter_parts& parts);

/// The tokens that `inner` proposes after the lane's text and its draft tokens so far: the first path of its
/// draft, at most `most` tokens. It drafts as for rule `coupled`, and learns from committed tokens only.
std::vector<token_id> guesses_behind(const draft_lane& lane, device::ops& ops, drafter& inner,
                                     std::uint32_t most);

} // namespace paceline::speculation
