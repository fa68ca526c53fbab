#include "runtime/scheduling/scheduler_state.hpp"

#include "runtime/scheduling/request_terms.hpp"
#include "runtime/speculation/control/expected_gain.hpp"

#include <algorithm>
#include <utility>

// Composition of rounds: which requests take part, and how many rows each of them has.

namespace paceline::scheduling {

namespace {

constexpr std::uint32_t max_logprob_rows = 64; ///< each one needs a row of logits

} // namespace

void scheduler_state::compose(group_id group, decisions& out, time_point now) {
  round_plan plan{round_id{next_round_}, group, {}};
  round_in_flight composed;
  composed.group = group;
  composed.since = now;
  std::uint32_t prompt_rows = prompt_row_budget(group);
  for (auto id : std::vector(running_)) { // a copy, because a preemption below shortens the list
    auto* entry = find(id);
    if (!entry || entry->group != group || entry->state != phase::running || ledger_.gives_way(id)) continue;
    auto& r = *entry;
    round_in_flight::part part;
    part.request = id;
    auto item = !r.decoding         ? prompt_item(r, prompt_rows, part)
                : r.beam_width != 0 ? beam_item(r, part, out)
                                    : decode_item(r, part, out);
    if (!item) continue;
    ++r.num_in_flight;
    r.upper_slot = std::max(r.upper_slot, r.upper_length + part.num_nodes);
    r.upper_length += part.growth;
    ledger_.tell(id, use_of(r));
    part.asks_worker = item->worker.has_value();
    if (follows_choice_of_overlap(r, *item)) composed.overlap = overlap_.mode();
    plan.items.push_back(std::move(*item));
    composed.parts.push_back(std::move(part));
  }
  if (plan.items.empty()) return;
  plan.resting_workers = resting_workers();
  ++next_round_;
  rounds_in_flight_.emplace(plan.round, std::move(composed));
  out.rounds.push_back(std::move(plan));
}

/// The fields of an item that do not depend on what its request does in the round.
plan_item scheduler_state::item_of(const record& r) const {
  plan_item item;
  item.request = r.request;
  item.blocks = ledger_.blocks(r.request.id());
  item.admission = r.num_admissions;
  item.states = r.states;
  item.num_row_states = r.num_row_states;
  return item;
}

std::optional<plan_item> scheduler_state::prompt_item(record& r, std::uint32_t& prompt_rows,
                                                      round_in_flight::part& part) {
  const auto rest = r.known_length - r.planned_kv;
  auto rows = std::min(rest, prompt_rows);
  const auto scores = num_scores(r);
  if (scores > 0) {
    rows = std::min(rows, max_logprob_rows);
    // Scores that were reported before a preemption need no credit now.
    const auto most = std::max<std::uint64_t>(r.num_scored, r.credit);
    if (most < scores)
      rows = std::min(rows, static_cast<std::uint32_t>(most) -
                                std::min(r.planned_kv, static_cast<std::uint32_t>(most)));
  }
  // The last row decides a token. Without credit, for example after a preemption, that row is not computed
  // yet.
  if (!may_decide(r)) rows = std::min(rows, rest - 1);
  if (rows == 0) return std::nullopt;
  prompt_rows -= rows;
  plan_item item = item_of(r);
  item.max_rows = rows;
  item.restart_at = std::exchange(r.restart_at, std::nullopt);
  item.num_cached_tokens = r.num_cached;
  item.copies = std::exchange(r.copies, {});
  r.planned_kv += rows;
  const auto scored = std::max(r.num_scored, std::min(r.planned_kv, scores));
  part.num_scores = scored - std::exchange(r.num_scored, scored);
  r.decoding = rows == rest;
  part.num_context = rows;
  part.growth = r.decoding ? std::max(1U, r.beam_width) : 0;
  part.restart = item.restart_at;
  part.copies = item.copies;
  return item;
}

std::optional<plan_item> scheduler_state::decode_item(record& r, round_in_flight::part& part,
                                                      decisions& out) {
  const auto growth = r.upper_length - r.known_length;
  const auto spent_then = spent(r) + growth;
  if (r.credit <= spent_then) return std::nullopt; // the client reads too slowly
  if (r.known_length + r.num_in_flight >= max_positions(r) && r.num_in_flight > 0)
    return std::nullopt; // the request ends in a round in flight; if that depends on drafts, the round's
                         // report shows it
  auto draft = usable_draft(r, out);
  draft.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(draft.length, r.credit - spent_then - 1));
  const auto id = r.request.id();
  ledger_.want(id, look_ahead::plain, out.pool);
  if (ledger_.stands_still(id)) {
    make_way_for(r, out);
    return std::nullopt;
  }
  plan_item item = item_of(r);
  item.max_rows = 1;
  item.drafter = draft.length > 0 ? r.drafter : plain_decoding;
  item.draft_length = draft.length;
  item.lengths = r.lengths.rule();
  item.max_nodes = draft.length > 0 ? std::min(draft.nodes, num_nodes(r, draft.length)) : 0;
  item.worker_length = draft.length > 0 ? std::min(worker_draft(r, draft.length, out), draft.length) : 0;
  if (item.worker_length > 0) {
    item.worker = r.worker;
    item.ahead = overlap_of(r);
    give_drafter_lease(id, item);
    item.num_spare_blocks = num_spare_blocks(r);
  }
  part.growth = 1 + draft.length;
  part.num_nodes = item.max_nodes;
  return item;
}

std::uint32_t scheduler_state::next_draft_length(record& r) {
  if (r.draft_length == 0 || rests(r.drafter)) return 0;
  const auto together = std::min(num_in_group(r.group), options_.max_running);
  const double step = pass_costs_.time(1);
  const auto rows = [&](std::uint32_t levels) { return num_nodes(r, levels); };
  return r.lengths.next(pass_costs_, step > 0 ? draft_step_[r.drafter.value] / step : 0, together,
                        r.beam_width == 0 ? speculation::rows_of_levels(rows) : nullptr);
}

/// The largest draft that `r` may have in a round planned now. It must fit into the leases that the request
/// has or is getting.
draft_bounds scheduler_state::usable_draft(record& r, decisions& out) {
  const auto length = std::min(next_draft_length(r), most_nodes_in_states(r));
  draft_bounds draft{length, num_nodes(r, length)};
  if (draft.length == 0) return draft;
  // If memory is tight, a tree gets as many nodes as fit into the blocks of a chain.
  const auto chain_blocks = ledger_.blocks_for(positions_ahead(r, look_ahead::chain));
  if (ledger_.tight())
    draft.nodes =
        std::min(draft.nodes, std::max(draft.length, r.beyond_upper(chain_blocks * options_.block_size)));
  if (!by_worker(r) || !pool_of(r)) return draft;
  // Without memory the drafter waits, which costs speed but never stops progress. It drafts as much of a tree
  // as it has cells for.
  draft.length = worker_draft(r, draft.length, out);
  return draft;
}

/// The draft length, at most `length`, that the request's worker can draft within the lease that it has or is
/// getting in the drafter's pool.
std::uint32_t scheduler_state::worker_draft(record& r, std::uint32_t length, decisions& out) {
  if (!by_worker(r)) {
    if (!r.worker && r.advice.drafter && !rests(*r.advice.drafter)) {
      r.worker = r.advice.drafter;
      ledger_.tell(r.request.id(), use_of(r));
    }
    length = r.advice.drafter == r.worker ? std::min(length, r.advice.length) : 0;
  }
  if (!r.worker || rests(*r.worker)) return 0;
  length = std::min(length, levels_in_own_context(r));
  if (length == 0) return 0;
  const auto pool = pool_of(r);
  if (!pool) return length;
  want_for_drafter(r, out);
  const auto num_blocks =
      static_cast<std::uint32_t>(ledger_.drafter_blocks(r.request.id()).size()) - num_spare_blocks(r);
  return std::min(length, levels_in_lease(r, num_blocks * options_.block_size));
}

/// Asks for memory in the pool of the request's worker, which has one.
void scheduler_state::want_for_drafter(const record& r, decisions& out) {
  const auto& slot = slot_of(*r.worker);
  ledger_.want_for_drafter(r.request.id(), *slot.pool, options_.prefix_cache ? slot.text_begin : std::nullopt,
                           look_ahead::chain, out.pool);
}

void scheduler_state::give_drafter_lease(request_id request, plan_item& item) {
  item.drafter_blocks = ledger_.drafter_blocks(request);
  item.num_drafter_cells = ledger_.num_drafter_cells(request);
  item.drafter_lease = ledger_.drafter_lease(request);
  item.drafter_copies = ledger_.drafter_copies(request);
}

std::uint32_t scheduler_state::depth(group_id) const {
  // A single group keeps a second round enqueued, so that its stream never waits for the host. With two
  // groups, each group's round does this for the other, and rounds are planned from newer results.
  return both_groups() ? 1 : 2;
}

std::uint32_t scheduler_state::in_flight(group_id group) const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(rounds_in_flight_, [&](const auto& f) { return f.second.group == group; }));
}

std::uint32_t scheduler_state::num_in_group(group_id group) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(running_, [&](auto id) {
    const auto& r = requests_.at(id);
    return r.group == group && r.state == phase::running;
  }));
}

std::uint32_t scheduler_state::num_streams() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(running_, [&](auto id) {
    const auto& r = requests_.at(id);
    return r.decoding && r.state == phase::running;
  }));
}

std::uint32_t scheduler_state::prompt_row_budget(group_id group) const {
  if (num_streams() == 0) return options_.max_prompt_rows;
  // The pause of a stream is one round of its own group and, with two groups, one round of the other group. A
  // fifth of the time is reserve.
  const auto rounds = depth(group) == 1 ? 2 : 1;
  return costs_.prompt_rows_within(options_.max_gap * 4 / (5 * rounds), 1, options_.max_prompt_rows);
}

group_id scheduler_state::choose_group(const record& r) const {
  if (!by_worker(r)) return group_id{0};
  using grouping = scheduler_options::grouping;
  const auto asked = r.request.terms->request().speculation.overlap;
  const bool alternate =
      asked ? *asked == overlap_request::groups
            : options_.groups == grouping::two || (options_.groups == grouping::measured && groups_pay(r));
  if (!alternate) return group_id{0};
  return num_in_group(group_id{0}) <= num_in_group(group_id{1}) ? group_id{0} : group_id{1};
}

/// The overlap mode of `r`, whose worker drafts for it, in a round planned now. With two groups, each group
/// overlaps with the other.
ahead_mode scheduler_state::overlap_of(const record& r) const {
  if (both_groups() || !slot_of(*r.worker).drafts_in_advance) return ahead_mode::off;
  const auto asked = r.request.terms->request().speculation.overlap;
  return asked ? ahead_mode_of(*asked) : overlap_.mode();
}

/// True if the engine's choice of overlap mode affects `item` of `r`.
bool scheduler_state::follows_choice_of_overlap(const record& r, const plan_item& item) const {
  return item.worker && r.beam_width == 0 && slot_of(*item.worker).drafts_in_advance &&
         !r.request.terms->request().speculation.overlap;
}

/// True if two groups would be faster according to the times measured so far. Drafting for half of the
/// requests is assumed to take as long as for all, because drafters read their weights once for each step.
bool scheduler_state::groups_pay(const record& r) const {
  const std::uint32_t num_requests = num_in_group(group_id{0}) + num_in_group(group_id{1}) + 1;
  const auto rows = num_requests * (r.draft_length + 1);
  const double draft = draft_step_[r.drafter.value] * r.draft_length;
  if (num_requests < 2 || draft == 0 || !pass_costs_.known(rows)) return false;
  const double all = pass_costs_.time(rows), half = pass_costs_.time((rows + 1) / 2);
  return speculation::groups_gain({all, draft}, {half, draft}, {half, draft}) > overlap_choice::least_gain;
}

} // namespace paceline::scheduling
