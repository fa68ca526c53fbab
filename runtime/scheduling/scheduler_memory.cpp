#include "runtime/scheduling/scheduler_state.hpp"

#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"


#include <algorithm>
#include <limits>
#include <utility>

// The memory of requests: what the scheduler asks of the pool, what the answers mean, and who gives way.

namespace paceline::scheduling {

decisions scheduler_state::on_leases(const std::vector<lease_event>& leases, bool blocks_freed,
                                     time_point now) {
  decisions out;
  for (const auto& lease : leases) take_lease(lease, out);
  if (blocks_freed) forget_refusals();
  pump(out, now);
  return out;
}

void scheduler_state::take_lease(const lease_event& event, decisions& out) {
  auto* r = find(event.request);
  if (!r) { // gone meanwhile: whatever was granted goes back
    if (event.granted) out.pool.emplace_back(release_command{event.request, event.pool, 0});
    return;
  }
  auto& lease = event.pool == 0 ? r->target_lease : r->drafter_lease;
  if (lease.asked != event.ticket) return; // asked before a restart, and again since
  lease.asked = 0;
  if (event.pool == 0) r->way_made = false;
  bool ask_again = false;
  if (event.granted) {
    lease.fresh |= lease.blocks.empty();
    lease.blocks = event.blocks;
    if (event.pool == 0) call_off_preemptions_for(event.request);
    if (event.pool == 0 && tight_) roll_back(*r, out); // asked for before
  } else {
    ask_again = event.pool == 0 && tighten(out);
    if (!ask_again) lease.refused_at = lease.asked_for;
    // At once: before the next round is planned, news of some blocks may let it ask, and be refused, again.
    if (event.pool == 0 && r->decoding) make_way_for(*r, out);
  }
  if (r->state == phase::acquiring) {
    if (event.granted) {
      begin_running(*r, event);
    } else {
      r->state = phase::waiting;
      lease.refused_at = 0;
      admission_blocked_ = !ask_again;
    }
  }
  retire_if_idle(event.request, out);
}

/// It has its first blocks, since its admission or its preemption.
void scheduler_state::begin_running(record& r, const lease_event& lease) {
  r.state = phase::running;
  r.restart_at = lease.num_cached;
  r.num_cached = lease.num_cached;
  r.copies = lease.copies;
  r.planned_kv = lease.num_cached;
  r.known_length = r.request.log->length(); // no program of it is under way
  settle_length(r);                         // the hypotheses of a beam search are computed again
  r.decoding = false;
  r.order = next_order_++;
  r.group = choose_group(r);
  num_groups_ = std::max(num_groups_, r.group.value + 1);
  counters_.cached_prompt_tokens += lease.num_cached;
  ++counters_.num_admitted;
  std::erase(queue_, lease.request);
  running_.push_back(lease.request);
}

/// Blocks came back, or the news of it may be lost: everybody may ask again. Who gives way goes on doing so
/// until the one in need has its blocks: it may be refused once more.
void scheduler_state::forget_refusals() {
  admission_blocked_ = false;
  forget_ways();
  for (auto& [id, r] : requests_) r.target_lease.refused_at = r.drafter_lease.refused_at = 0;
}

decisions scheduler_state::on_pool_restarted(time_point now) {
  decisions out;
  retain_command alive;
  for (auto id : running_) alive.requests.push_back(id);
  out.pool.emplace_back(std::move(alive));
  for (auto& [id, r] : requests_) {
    r.target_lease.asked = r.drafter_lease.asked = 0;
    if (r.state == phase::acquiring) r.state = phase::waiting;
  }
  forget_refusals();
  for (auto id : std::vector(running_)) retire_if_idle(id, out);
  pump(out, now);
  return out;
}

void scheduler_state::admit(decisions& out) {
  if (admission_blocked_ || queue_.empty() || running_.size() >= options_.max_running) return;
  // Those who run get their blocks first; a newcomer would take what a starving request waits for.
  for (auto id : running_) {
    const auto& other = requests_.at(id);
    const auto& lease = other.target_lease;
    if (lease.asked || (lease.refused_at != 0 && lease.refused_at <= look_ahead(other, appetite::chain)))
      return;
  }
  auto& r = requests_.at(queue_.front());
  if (r.state == phase::acquiring) return; // one at a time, in order
  r.state = phase::acquiring;
  const auto& request = r.request.terms->request();
  acquire_command ask;
  ask.request = r.request.id();
  ask.tokens.assign(r.request.log->tokens().begin(), r.request.log->tokens().end());
  ask.salt = request.cache_salt;
  ask.use_cache = options_.prefix_cache && !request.sampling.prompt_logprobs;
  const auto nodes = r.beam_width != 0 ? r.beam_width
                     : tight_          ? r.draft_length
                                       : num_nodes(r, r.draft_length);
  const auto known = std::max(r.request.log->length(), r.num_cells);
  ask.num_positions = bounded(r, std::uint64_t{known} + nodes + 1, nodes); // to its first draft
  ask.ticket = r.target_lease.asked = next_ticket_++;
  out.pool.emplace_back(std::move(ask));
}

/// Asks for as much as the pool may still have, from what trees want down to `least`.
void scheduler_state::want_blocks(record& r, lease& lease, std::uint32_t pool, appetite least,
                                  decisions& out) {
  if (lease.asked) return;
  for (auto a : {appetite::tree, appetite::chain, appetite::plain}) {
    if (a > largest_appetite() || a < least) continue;
    const auto spare = pool != 0 && a == appetite::tree ? spare_blocks_wanted(r) * options_.block_size : 0;
    const auto num_positions = pool == 0 ? look_ahead(r, a) : look_ahead_of_drafter(r, a) + spare;
    if (lease.positions(options_.block_size) >= num_positions) return;
    if (lease.refused_at != 0 && num_positions >= lease.refused_at) continue;
    lease.asked = next_ticket_++;
    lease.asked_for = num_positions;
    out.pool.emplace_back(reserve_command{r.request.id(), pool, num_positions, lease.asked});
    return;
  }
}

/// The pool is full: draft trees give back what no round in flight uses. True if that is new, so that asking
/// again, for less, may succeed.
bool scheduler_state::tighten(decisions& out) {
  if (std::exchange(tight_, true)) return false;
  for (auto id : running_) roll_back(requests_.at(id), out);
  return true;
}

void scheduler_state::roll_back(record& r, decisions& out) {
  // What lies beyond the rounds in flight and the look-ahead is nobody's.
  const auto keep = std::max(look_ahead(r, largest_appetite()), r.upper_slot);
  auto& lease = r.target_lease;
  const auto num_blocks = blocks_for(keep);
  if (lease.asked || r.state != phase::running || r.beam_width != 0 || lease.blocks.size() <= num_blocks)
    return;
  lease.blocks.resize(num_blocks);
  out.pool.emplace_back(rollback_command{r.request.id(), 0, keep, lease.last_use});
}

/// The pool has refused what it needs for a token a round.
bool scheduler_state::lacks_blocks(const record& r) const {
  const auto& lease = r.target_lease;
  return lease.refused_at != 0 && lease.refused_at <= look_ahead(r, appetite::plain);
}

/// It has no cell for the last token that it may have, or of a beam search not one for each hypothesis.
bool scheduler_state::stands_still(const record& r) const {
  return r.target_lease.positions(options_.block_size) < std::min(r.upper_length, max_positions(r));
}

/// Preempts somebody if `r` can take part in no round before it gets blocks that the pool has refused. The
/// rounds in flight of a beam search may give cells back.
void scheduler_state::make_way_for(const record& r, decisions& out) {
  const bool waits_for_rounds = r.beam_width != 0 && r.num_in_flight > 0;
  if (r.state != phase::running || r.gives_way_to || r.way_made || waits_for_rounds) return;
  if (stands_still(r) && lacks_blocks(r)) preempt_youngest_for(r.request.id(), out);
}

/// Whoever still lacks blocks may have somebody else give way.
void scheduler_state::forget_ways() {
  for (auto& [id, r] : requests_) r.way_made = false;
}

void scheduler_state::preempt_youngest_for(request_id needy, decisions& out) {
  for (auto id : running_) {
    const auto& r = requests_.at(id);
    if (r.beam_width == 0 && r.num_in_flight > 0 &&
        r.target_lease.blocks.size() > blocks_for(look_ahead(r, appetite::chain)))
      return; // a tree under way: its blocks come back soon
  }
  // Youngest first; the oldest is never preempted, so somebody always gets on.
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    auto& victim = requests_.at(*it);
    if (victim.state != phase::running) return; // its blocks come back soon
    // Alone, it gives back what it holds rather than wait with it: who has the rest may be waiting for these
    // blocks.
    const bool oldest = it + 1 == running_.rend();
    if (oldest && (running_.size() > 1 || victim.num_in_flight > 0)) return;
    if (victim.gives_way_to) return;
    victim.gives_way_to = needy;
    retire_if_idle(*it, out);
    return;
  }
}

/// `needy` has its blocks, or needs none any more: who still runs stays.
void scheduler_state::call_off_preemptions_for(request_id needy) {
  for (auto& [id, r] : requests_)
    if (r.gives_way_to == needy) r.gives_way_to.reset();
}

void scheduler_state::release(record& r, decisions& out) {
  const auto id = r.request.id();
  out.pool.emplace_back(release_command{id, 0, r.target_lease.last_use});
  if (const auto pool = pool_of(r); pool != 0)
    out.pool.emplace_back(release_command{id, pool, r.drafter_lease.last_use});
  r.target_lease = {};
  r.drafter_lease = {};
  if (!by_worker(r)) r.worker = 0, r.wish = {};
}

std::uint32_t scheduler_state::max_positions(const record& r) const {
  const auto& request = r.request.terms->request();
  const auto width = std::max(1U, r.beam_width); // hypotheses may differ from their first token on
  const std::uint64_t wanted =
      std::uint64_t{r.request.terms->prompt_length()} + std::uint64_t{width} * request.stop.max_tokens;
  if (r.beam_width != 0)
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(wanted, std::numeric_limits<std::uint32_t>::max()));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options_.context_length));
}

std::uint32_t scheduler_state::look_ahead(const record& r, appetite a) const {
  const std::uint64_t upper = r.upper_length;
  if (r.beam_width != 0) return bounded(r, upper + r.beam_width + num_beam_nodes(r, a), num_beam_nodes(r, a));
  if (a == appetite::plain) return bounded(r, upper + 2, 0);
  const auto nodes = a == appetite::tree ? num_nodes(r, r.draft_length) : r.draft_length;
  return bounded(r, upper + (r.draft_length + 1) + (nodes + 1), nodes);
}

/// In the pool of the drafter that drafts for it: this round's growth, then the draft of the next one by its
/// own measure.
std::uint32_t scheduler_state::look_ahead_of_drafter(const record& r, appetite a) const {
  const auto cells = a == appetite::tree ? own_positions(r, r.draft_length) : r.draft_length;
  const std::uint64_t upper =
      r.beam_width != 0 ? r.upper_length + r.beam_width : r.upper_length + r.draft_length + 1;
  return bounded(r, upper + cells + 1, cells);
}

std::uint32_t scheduler_state::own_positions(const record& r, std::uint32_t draft_length) const {
  const auto& slot = options_.drafters[r.worker];
  return slot.own_positions ? std::max(slot.own_positions(draft_length), draft_length) : draft_length;
}

/// `positions`, or what a request can use of them at most. Of nodes side by side only one is committed, so
/// they may lie beyond its last position.
std::uint32_t scheduler_state::bounded(const record& r, std::uint64_t positions, std::uint32_t nodes) const {
  const auto side_by_side = nodes - std::min(nodes, r.draft_length);
  const auto pool_positions = std::uint64_t{options_.num_blocks} * options_.block_size;
  return static_cast<std::uint32_t>(
      std::min({positions, std::uint64_t{max_positions(r)} + side_by_side, pool_positions}));
}

/// Blocks of the drafter's pool for drafts of outcomes, beside those of the text. A beam search's steps are
/// not foreseen.
std::uint32_t scheduler_state::spare_blocks_wanted(const record& r) const {
  if (r.beam_width != 0) return 0;
  const auto wish = r.request.terms->request().speculation.overlap;
  const bool outcomes =
      wish ? *wish == overlap_wish::outcomes
           : std::ranges::find(options_.overlap, foresight::outcomes) != options_.overlap.end();
  const auto length = by_worker(r) ? r.draft_length : options_.drafters[r.worker].default_draft_length;
  return outcomes && r.group == group_id{0} ? spare_blocks(length, options_.num_guesses, options_.block_size)
                                            : 0;
}

/// The part of the drafter's lease that the text does not need.
std::uint32_t scheduler_state::num_spare_blocks(const record& r) const {
  const auto held = static_cast<std::uint32_t>(r.drafter_lease.blocks.size());
  return std::min(spare_blocks_wanted(r),
                  held - std::min(held, blocks_for(look_ahead_of_drafter(r, appetite::tree))));
}

std::uint32_t scheduler_state::num_nodes(const record& r, std::uint32_t draft_length) const {
  const auto& slot = options_.drafters[r.drafter];
  if (!slot.max_nodes) return draft_length;
  return std::clamp(slot.max_nodes(draft_length), draft_length,
                    std::max(draft_length, speculation::token_tree::max_nodes));
}

} // namespace paceline::scheduling
