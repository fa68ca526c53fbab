#include "runtime/scheduling/scheduler_state.hpp"

#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <algorithm>
#include <limits>
#include <utility>

// The memory of requests: when the scheduler asks for it, what the answers mean for rounds, and how many
// positions a request needs.

namespace paceline::scheduling {

namespace {

constexpr auto no_limit = std::numeric_limits<std::uint32_t>::max();

} // namespace

decisions scheduler_state::on_leases(const std::vector<lease_event>& leases, bool blocks_freed,
                                     time_point now) {
  decisions out;
  for (const auto& lease : leases) take_lease(lease, out);
  if (blocks_freed) ledger_.on_blocks_freed();
  blocks_given_up_ &= !blocks_freed;
  pump(out, now);
  return out;
}

void scheduler_state::take_lease(const lease_event& event, decisions& out) {
  const auto answer = ledger_.take(event, out.pool);
  if (answer == memory_ledger::answer::stale) return;
  auto& r = requests_.at(event.request);
  const bool granted = answer == memory_ledger::answer::granted;
  // This is done at once. Otherwise, if a few blocks are freed before the next round is planned, the request
  // would ask again and be refused again.
  if (!granted && event.pool == target_pool && r.decoding) make_way_for(r, out);
  if (r.state == phase::acquiring) {
    if (granted)
      begin_running(r, event);
    else
      wait_for_memory(r);
  }
  retire_if_idle(event.request, out);
}

/// The request has no lease, and asks again when it can be admitted.
void scheduler_state::wait_for_memory(record& r) {
  r.state = phase::waiting;
  r.states.reset();
  r.num_state_slots = r.num_row_states = 0;
}

/// Called when the request gets its first blocks after its admission or preemption.
void scheduler_state::begin_running(record& r, const lease_event& lease) {
  r.state = phase::running;
  ++r.num_admissions;
  r.restart_at = lease.num_cached;
  r.num_cached = lease.num_cached;
  r.copies = lease.copies;
  if (options_.state_interval != 0) {
    r.states = std::make_shared<const kv::state_lease>(lease.states);
    const auto asked_spare = r.num_state_slots - r.num_row_states;
    r.num_state_slots = static_cast<std::uint32_t>(lease.states.slots.size());
    const auto for_snapshot = std::min({asked_spare, r.num_state_slots, 1U});
    r.num_row_states = std::min({r.num_row_states, r.num_state_slots,
                                 std::max(least_row_states(r.beam_width), r.num_state_slots - for_snapshot)});
  }
  r.planned_kv = lease.num_cached;
  r.known_length = r.request.log->length(); // none of its programs is running
  r.decoding = false;
  r.gave_up_slot = false;
  r.group = choose_group(r);
  settle_length(r); // the hypotheses of a beam search are computed again
  num_groups_ = std::max(num_groups_, r.group.value + 1);
  counters_.cached_prompt_tokens += lease.num_cached;
  ++counters_.num_admitted;
  std::erase(queue_, lease.request);
  running_.push_back(lease.request);
}

decisions scheduler_state::on_pool_restarted(time_point now) {
  decisions out;
  // If the last watermarks were lost, blocks that wait for them would stay deferred until another round is
  // reported. There may be none, because all requests may be waiting for blocks.
  tell_completed(completed_, out);
  ledger_.on_pool_restarted(out.pool);
  for (auto& [id, r] : requests_)
    if (r.state == phase::acquiring) wait_for_memory(r);
  for (auto id : std::vector(running_)) retire_if_idle(id, out);
  pump(out, now);
  return out;
}

void scheduler_state::admit(decisions& out) {
  if (queue_.empty() || running_.size() >= options_.max_running || !ledger_.admits()) return;
  auto* next = next_to_admit();
  if (!next) return;
  auto& r = *next;
  r.state = phase::acquiring;
  const auto& request = r.request.terms->request();
  acquire_command ask;
  ask.request = r.request.id();
  ask.tokens.assign(r.request.log->tokens().begin(), r.request.log->tokens().end());
  ask.salt = request.cache_salt;
  ask.use_cache = options_.prefix_cache && !request.sampling.prompt_logprobs;
  const auto nodes = r.beam_width != 0 ? r.beam_width
                     : ledger_.tight() ? r.draft_length
                                       : num_nodes(r, r.draft_length);
  const auto known = std::max(r.request.log->length(), r.num_cells);
  ask.num_positions = bounded(r, std::uint64_t{known} + nodes + 1, nodes); // up to its first draft
  if (options_.state_interval != 0) {
    const auto wanted = state_slots_wanted(r);
    ask.min_state_slots = least_row_states(r.beam_width);
    ask.max_state_slots = r.num_row_states = wanted.for_rows;
    ask.num_snapshot_slots = wanted.for_snapshots;
    r.num_state_slots = wanted.for_rows + wanted.for_snapshots;
  }
  ledger_.acquire(std::move(ask), out.pool);
}

/// The state slots that `r` asks for. A beam search keeps only states of its prompt.
slot_share scheduler_state::state_slots_wanted(const record& r) const {
  slot_demand demand;
  demand.num_slots = options_.num_state_slots;
  demand.max_running = options_.max_running;
  for (const auto& [id, other] : requests_) {
    if (&other == &r || other.num_state_slots == 0) continue;
    ++demand.num_others;
    demand.num_held += other.num_state_slots;
  }
  demand.least = least_row_states(r.beam_width);
  demand.num_nodes =
      std::min(r.beam_width != 0 ? num_beam_nodes(r, look_ahead::tree) : num_tree_nodes(r, r.draft_length),
               speculation::token_tree::max_nodes);
  const auto positions = r.beam_width != 0 ? r.request.terms->prompt_length() : max_positions(r);
  if (options_.prefix_cache) demand.num_snapshots = max_snapshots(positions, options_.state_interval);
  return share_of(demand);
}

/// Preempts another request for `r` if necessary. This happens at once if that request has nothing in flight.
void scheduler_state::make_way_for(const record& r, decisions& out) {
  if (const auto victim = ledger_.make_way_for(r.request.id())) retire_if_idle(*victim, out);
}

memory_use scheduler_state::use_of(const record& r) const {
  memory_use use;
  use.num_in_flight = r.num_in_flight;
  use.closing = r.state == phase::closing;
  // This includes one cell for the last possible token. For a beam search it includes one for each
  // hypothesis.
  use.needed = std::min(r.upper_length, max_positions(r));
  use.written = r.upper_slot;
  use.scattered = r.beam_width != 0;
  use.target = {positions_ahead(r, look_ahead::plain), positions_ahead(r, look_ahead::chain),
                positions_ahead(r, look_ahead::tree)};
  if (pool_of(r))
    use.drafter = {0, drafter_positions_ahead(r, look_ahead::chain),
                   drafter_positions_ahead(r, look_ahead::tree) +
                       spare_blocks_wanted(r) * options_.block_size};
  return use;
}

std::uint32_t scheduler_state::max_positions(const record& r) const {
  const auto& request = r.request.terms->request();
  const auto width = std::max(1U, r.beam_width); // hypotheses may differ from the first token on
  const std::uint64_t wanted =
      std::uint64_t{r.request.terms->prompt_length()} + std::uint64_t{width} * request.stop.max_tokens;
  if (r.beam_width != 0)
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(wanted, std::numeric_limits<std::uint32_t>::max()));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options_.context_length));
}

std::uint32_t scheduler_state::positions_ahead(const record& r, look_ahead kind) const {
  const std::uint64_t upper = r.upper_length;
  if (has_outgrown_drafter(r)) kind = look_ahead::plain;
  if (r.beam_width != 0)
    return bounded(r, upper + r.beam_width + num_beam_nodes(r, kind), num_beam_nodes(r, kind));
  if (kind == look_ahead::plain) return bounded(r, upper + 2, 0);
  const auto nodes = kind == look_ahead::tree ? num_nodes(r, r.draft_length) : r.draft_length;
  return bounded(r, upper + (r.draft_length + 1) + (nodes + 1), nodes);
}

/// Positions in the pool of the worker that drafts for `r`: the growth in this round, then the next draft.
/// They are counted in that drafter's units and limited by its own context.
std::uint32_t scheduler_state::drafter_positions_ahead(const record& r, look_ahead kind) const {
  const auto& slot = slot_of(*r.worker);
  const auto block = slot.block_positions;
  const auto most = own_positions(r, r.draft_length);
  const auto cells = kind == look_ahead::tree ? most : std::min(most, block + r.draft_length);
  const auto nodes = cells - std::min(cells, block);
  if (!slot.caches_text) return bounded(r, std::uint64_t{cells} + 1, nodes, block);
  const std::uint64_t upper =
      r.beam_width != 0 ? r.upper_length + r.beam_width : r.upper_length + r.draft_length + 1;
  if (r.beam_width != 0 && slot.text_begin && kind == look_ahead::tree) {
    // Every hypothesis drafts after its own text. It has the last block to itself if that leaves enough
    // blocks for the others.
    const auto more = r.beam_width * (cells + options_.block_size);
    return bounded(r, upper + more, 0, more);
  }
  const auto wanted = bounded(r, upper + cells + 1, nodes, block);
  if (slot.max_text == 0) return wanted;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, std::uint64_t{slot.max_text} + cells));
}

/// The number of levels that the request's worker can draft in `positions` of its pool, after a text of
/// `text` cells.
std::uint32_t scheduler_state::levels_after(const record& r, std::uint32_t text,
                                            std::uint32_t positions) const {
  const auto left = positions - std::min(positions, text);
  return left < slot_of(*r.worker).block_positions ? 0 : left;
}

/// The number of levels that the request's worker can draft in a lease of `positions`.
std::uint32_t scheduler_state::levels_in_lease(const record& r, std::uint32_t positions) const {
  const auto& slot = slot_of(*r.worker);
  // The lease is enough until the request ends, whatever the rounds in flight commit.
  if (positions >= std::uint64_t{max_positions(r)} + slot.block_positions) return no_limit;
  return levels_after(r, slot.caches_text ? r.upper_length : 1, positions);
}

/// The number of levels that the context of the worker's model allows. A hypothesis of a beam search is no
/// longer than its cells, and no longer than the request allows.
std::uint32_t scheduler_state::levels_in_own_context(const record& r) const {
  const auto& slot = slot_of(*r.worker);
  if (slot.max_text == 0) return no_limit;
  const auto& terms = *r.request.terms;
  const auto longest = std::uint64_t{terms.prompt_length()} + terms.request().stop.max_tokens;
  if (slot.max_text >= longest + slot.block_positions) return no_limit;
  const auto text = static_cast<std::uint32_t>(std::min<std::uint64_t>(r.upper_length, longest));
  return levels_after(r, text, slot.max_text);
}

/// True if the text is too long for the drafter that the request names.
bool scheduler_state::has_outgrown_drafter(const record& r) const {
  return by_worker(r) && levels_in_own_context(r) == 0;
}

std::uint32_t scheduler_state::own_positions(const record& r, std::uint32_t draft_length) const {
  const auto& slot = slot_of(*r.worker);
  if (r.beam_width > 1 && slot.widens_for_beams)
    return speculation::most_expanded(speculation::widened(r.beam_width), draft_length);
  return slot.own_positions ? std::max(slot.own_positions(draft_length), draft_length) : draft_length;
}

/// `positions`, limited to what a request can use. Only one of several siblings is committed, so nodes may
/// lie beyond the request's last position. `num_more` other positions may lie there as well.
std::uint32_t scheduler_state::bounded(const record& r, std::uint64_t positions, std::uint32_t nodes,
                                       std::uint32_t num_more) const {
  const auto side_by_side = nodes - std::min(nodes, r.draft_length);
  const auto pool_positions = std::uint64_t{options_.num_blocks} * options_.block_size;
  return static_cast<std::uint32_t>(
      std::min({positions, std::uint64_t{max_positions(r)} + side_by_side + num_more, pool_positions}));
}

/// The number of blocks in the drafter's pool for drafts of outcomes, in addition to the blocks of the text.
/// Steps of beam searches are not predicted.
std::uint32_t scheduler_state::spare_blocks_wanted(const record& r) const {
  if (r.beam_width != 0 || !slot_of(*r.worker).drafts_in_advance) return 0;
  const auto asked = r.request.terms->request().speculation.overlap;
  const bool outcomes =
      asked ? *asked == overlap_request::outcomes
            : std::ranges::find(options_.overlap, ahead_mode::outcomes) != options_.overlap.end();
  const auto length = by_worker(r) ? r.draft_length : slot_of(*r.worker).default_draft_length;
  return outcomes && r.group == group_id{0} ? spare_blocks(length, options_.num_guesses, options_.block_size)
                                            : 0;
}

/// The part of the drafter's lease that the text does not use.
std::uint32_t scheduler_state::num_spare_blocks(const record& r) const {
  const auto held = static_cast<std::uint32_t>(ledger_.drafter_blocks(r.request.id()).size());
  return std::min(spare_blocks_wanted(r),
                  held - std::min(held, ledger_.blocks_for(drafter_positions_ahead(r, look_ahead::tree))));
}

std::uint32_t scheduler_state::num_nodes(const record& r, std::uint32_t draft_length) const {
  const auto& slot = slot_of(r.drafter);
  if (!slot.max_rows) return draft_length;
  const auto rows = std::max(slot.max_rows(draft_length), draft_length);
  const auto nodes = num_tree_nodes(r, draft_length);
  const auto without_slot = nodes - std::min(nodes, most_nodes_in_states(r)); // probes need none
  return std::clamp(rows - without_slot, draft_length, std::max(draft_length, speculation::draft::max_rows));
}

/// The nodes of such a draft without probes, if the request gets all memory that it asks for.
std::uint32_t scheduler_state::num_tree_nodes(const record& r, std::uint32_t draft_length) const {
  const auto& slot = slot_of(r.drafter);
  return slot.max_nodes ? std::max(slot.max_nodes(draft_length), draft_length) : draft_length;
}

/// The number of draft nodes for which the request has slots of states. Beam searches count theirs when they
/// draft.
std::uint32_t scheduler_state::most_nodes_in_states(const record& r) const {
  return r.states && r.beam_width == 0 ? nodes_in_states(r.num_row_states) : no_limit;
}

} // namespace paceline::scheduling
