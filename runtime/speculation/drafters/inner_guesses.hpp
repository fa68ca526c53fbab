#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <memory>
#include <vector>

// Of a cascade: the drafter that its model is drafted for by.

namespace paceline::speculation {

/// The inner drafter that option `inner` of `parts` names. Fails where that kind cannot be one: it drafts in
/// line, and learns from tokens alone.
expected<std::shared_ptr<drafter>> make_inner_drafter(const drafter_parts& parts);

/// What `inner` says comes behind the lane's text and its draft tokens so far: the first path of its draft,
/// at most `most` tokens, as certain ones. It learns from what is committed of that text only.
std::vector<token_id> guesses_behind(const draft_lane& lane, device::ops& ops, drafter& inner,
                                     std::uint32_t most);

} // namespace paceline::speculation
