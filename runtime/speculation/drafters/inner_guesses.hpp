#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <memory>
#include <vector>

// The inner drafter of a cascade: it drafts for the cascade's model.

namespace paceline::speculation {

/// The inner drafter that option `inner` of `parts` names. Error if that kind cannot be an inner drafter,
/// which must be in-line and learn from tokens alone.
expected<std::shared_ptr<drafter>> make_inner_drafter(const drafter_parts& parts);

/// The tokens that `inner` proposes after the lane's text and its draft tokens so far: the first path of its
/// draft, at most `most` tokens, chosen without randomness. `inner` learns from committed tokens only.
std::vector<token_id> guesses_behind(const draft_lane& lane, device::ops& ops, drafter& inner,
                                     std::uint32_t most);

} // namespace paceline::speculation
