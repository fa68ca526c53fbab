#include "runtime/scheduling/scheduler_state.hpp"

#include "runtime/speculation/trees/token_tree.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <algorithm>
#include <utility>

// Rounds of beam searches. In each step, their output grows by one token and their memory by up to one cell
// for each hypothesis.

namespace paceline::scheduling {

std::optional<plan_item> scheduler_state::beam_item(record& r, round_in_flight::part& part, decisions& out) {
  const auto id = r.request.id();
  ledger_.want(id, look_ahead::plain, out.pool);
  if (ledger_.stands_still(id)) {
    make_way_for(r, out);
    return std::nullopt;
  }
  auto length = next_draft_length(r);
  if (by_worker(r)) length = std::min(length, levels_in_own_context(r));
  const auto pool = by_worker(r) ? pool_of(r) : std::nullopt;
  if (length > 0 && pool) { // the hypotheses share the lease in this pool
    want_for_drafter(r, out);
    length = std::min(length, levels_in_lease(r, ledger_.drafter_positions(id)));
  }
  plan_item item = item_of(r);
  item.drafter = length > 0 ? r.drafter : plain_decoding;
  item.draft_length = length;
  if (length > 0 && by_worker(r)) item.worker = r.worker;
  item.worker_length = item.worker ? length : 0;
  item.lengths = r.lengths.rule();
  item.max_nodes = length > 0 ? std::min(num_beam_nodes(r, ledger_.largest_look_ahead()),
                                         r.beyond_upper(ledger_.positions(id)))
                              : 0;
  if (length > 0 && pool) give_drafter_lease(id, item);
  part.growth = r.beam_width + item.max_nodes;
  return item;
}

/// Number of draft tokens of all hypotheses together.
std::uint32_t scheduler_state::num_beam_nodes(const record& r, look_ahead kind) const {
  if (kind == look_ahead::plain) return 0;
  std::uint64_t each = kind == look_ahead::tree ? num_nodes(r, r.draft_length) : r.draft_length;
  if (kind == look_ahead::tree && r.beam_width > 1 && slot_of(r.drafter).widens_for_beams)
    each = speculation::most_nodes(speculation::widened(r.beam_width),
                                   {r.draft_length, speculation::token_tree::max_nodes});
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(each * r.beam_width, speculation::token_tree::max_nodes));
}

} // namespace paceline::scheduling
