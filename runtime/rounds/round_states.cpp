#include "runtime/base/check.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "runtime/scheduling/state_slot_shares.hpp"

#include <algorithm>
#include <map>

// The recurrent states of a round's rows: which row continues which, where the states are left, and which of
// them the request continues from.

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

/// True if the state of the first `length` tokens becomes a snapshot when `num_spare` slots are left for
/// snapshots.
bool round_runner::keeps_snapshot(const batch_part& part, std::uint32_t length,
                                  std::uint32_t num_spare) const {
  const auto block = resources_.kv->block_size();
  snapshot_places at;
  at.prompt_end = prompt_end_of(part.item->request.terms->prompt_length(), block);
  at.common = part.item->states->cached_without_state;
  at.interval = resources_.state_interval;
  return scheduling::keeps_snapshot(at, length, num_spare);
}

/// Adds the states of the context rows. The last row leaves a state. Rows before it leave a state if
/// it becomes a snapshot.
void round_runner::add_context_states(batch_part& part) {
  auto& slots = part.item->request.progress->states();
  part.states.of_context.clear();
  std::uint32_t num_snapshots = 0;
  for (std::uint32_t i = 0; i < part.num_context; ++i) {
    device::row_state state;
    if (i == 0)
      state.read = slots.current();
    else
      state.parent = static_cast<std::int32_t>(states_.size()) - 1;
    const bool last = i + 1 == part.num_context;
    if (last || keeps_snapshot(part, part.context_begin + i + 1, slots.num_spare() - num_snapshots)) {
      state.write = slots.next();
      num_snapshots += last ? 0 : 1;
    }
    states_.push_back(state);
    part.states.of_context.push_back(state.write);
  }
}

void round_runner::add_node_states(batch_part& part) {
  const auto last = static_cast<std::int32_t>(part.first_row + part.num_context) - 1;
  for (const auto parent : part.draft.tree.parents()) {
    const auto slot = part.item->request.progress->states().next();
    states_.push_back({last + 1 + parent, std::nullopt, slot}); // the root, -1, is the last context row
    part.states.of_nodes.push_back(slot);
  }
}

/// Adds the states of probes. No slot holds them, because no row of a later pass continues a probe.
void round_runner::add_probe_states(const batch_part& part) {
  const auto last = static_cast<std::int32_t>(part.first_row + part.num_context) - 1;
  for (const auto& probe : part.draft.probes)
    states_.push_back({last + 1 + probe.parent, std::nullopt, std::nullopt});
}

void round_runner::add_beam_states(batch_part& part, std::span<const beam_search::row> rows) {
  auto& beams = *part.beams;
  auto& slots = part.item->request.progress->states();
  std::map<std::uint32_t, std::int32_t> row_of; // by node
  for (const auto& row : rows) {
    device::row_state state;
    const auto parent = beams.parent_of(row.node);
    if (const auto found = row_of.find(parent); found != row_of.end())
      state.parent = found->second;
    else
      state.read = parent == beam_search::root ? slots.current() : beams.state_of(parent);
    PACELINE_CHECK(state.parent >= 0 || state.read, "a hypothesis without the state before it");
    state.write = slots.next();
    beams.set_state(row.node, *state.write);
    row_of.emplace(row.node, static_cast<std::int32_t>(states_.size()));
    states_.push_back(state);
  }
}

/// The request continues from the state of the last row whose token became part of the text.
void round_runner::settle_states(const batch_part& part, std::span<const std::int32_t> accepted_path,
                                 item_result& done) {
  auto& progress = *part.item->request.progress;
  auto& slots = progress.states();
  const auto keep_snapshot = [&](std::uint32_t length, state_slot slot) {
    if (length > progress.kv_length() || !keeps_snapshot(part, length, slots.num_spare())) return;
    slots.make_snapshot(slot);
    done.snapshots.push_back({length, slot});
  };
  std::optional<state_slot> newest;
  auto length = part.context_begin;
  for (const auto& slot : part.states.of_context) {
    ++length;
    if (slot) keep_snapshot(length, *slot);
    if (slot) newest = slot;
  }
  for (const auto node : accepted_path) {
    newest = part.states.of_nodes[static_cast<std::size_t>(node)];
    keep_snapshot(++length, *newest);
  }
  if (newest) slots.commit(*newest);
  if (part.beams) slots.hold(part.beams->needed_states());
}

} // namespace paceline::rounds
