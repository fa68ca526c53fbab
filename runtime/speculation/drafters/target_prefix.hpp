#pragma once

#include "runtime/speculation/drafters/draft_lane.hpp"

#include <cstddef>
#include <span>

namespace paceline::device {
class ops;
}

namespace paceline::speculation {

/// Largest number of cells of committed tokens that one call copies from the target's pool, for all requests
/// together. A longer prompt is copied in several calls, so that it does not block other requests.
inline constexpr std::size_t max_copied_cells = 4096;

/// For a drafter whose model consists of the target's first layers. The target has computed the cells of
/// committed tokens already. For each request that is to get a draft (one lane), copies the cells that the
/// drafter lacks from the target's pool to the drafter's. The target's pool has no cell yet for the newest
/// token, so the drafter computes this row itself. A request that still lacks cells after this call gets no
/// draft in this call (`draft::catching_up`). A lane without target cells is not changed.
///
/// On a strict device (`device::compute_device::is_strict`) the copied cells have the same bits as cells that
/// the drafter would compute, because a row's bits do not depend on the other rows of its pass. On other
/// devices their last bits may differ, which can change drafts.
void take_target_cells(device::ops& ops, model::kv_storage& kv, std::span<draft_lane> lanes);

} // namespace paceline::speculation
