#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"

#include <cstddef>
#include <span>

namespace paceline::device {
class ops;
}

namespace paceline::speculation {

/// Largest number of cells of committed tokens that one call copies from the target's pool, over all tasks. A
/// longer prompt is copied in several calls, so that it does not block other requests.
inline constexpr std::size_t max_copied_cells = 4096;

/// For a drafter whose model consists of the target's first layers: the cells of a committed token have the
/// same bits in both pools, because a row's bits do not depend on the other rows of its pass. So the drafter
/// copies them instead of computing them. Copies the cells that the lanes' sessions lack, up to the newest
/// token, whose row the drafter computes itself. A lane whose copies are not complete does not draft in this
/// call. A lane without target cells is not changed.
void take_target_cells(device::ops& ops, model::kv_storage& kv, std::span<draft_lane> lanes);

} // namespace paceline::speculation
