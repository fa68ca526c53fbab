#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"

#include <cstddef>
#include <span>

namespace paceline::device {
class ops;
}

namespace paceline::speculation {

/// Cells of committed tokens that a call copies out of the target's pool, over all tasks. A prompt longer
/// than that is copied in several calls, so that it does not stop other requests.
inline constexpr std::size_t max_copied_cells = 4096;

/// A drafter whose model is the first layers of the target need not compute what the target has: the cells of
/// a committed token are the same bits in both pools, since a row's bits do not depend on its company. Copies
/// those that the lanes' sessions lack, up to the newest token, whose row the drafter runs itself. A lane
/// whose copies are not complete does not draft in this call; one without target cells is left as it is.
void take_target_cells(device::ops& ops, model::kv_storage& kv, std::span<draft_lane> lanes);

} // namespace paceline::speculation
