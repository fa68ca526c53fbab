#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

// The memory of requests: what the scheduler asks of the pool, what the answers mean, and who gives way.

namespace paceline::scheduling {

decisions scheduler_state::on_lease(const lease_event& event, time_point now) {
  decisions out;
  auto* r = find(event.request);
  if (!r) { // gone meanwhile: whatever was granted goes back
    if (event.granted) out.pool.emplace_back(release_command{event.request, event.pool, 0});
    return out;
  }
  auto& lease = event.pool == 0 ? r->target_lease : r->drafter_lease;
  if (lease.asked != event.ticket) return out; // asked before a restart, and again since
  lease.asked = 0;
  lease.refused = !event.granted;
  if (event.granted) {
    lease.fresh = lease.blocks.empty();
    lease.blocks = event.blocks;
  }
  if (r->state == phase::acquiring) {
    if (event.granted) {
      r->state = phase::running;
      r->restart_at = event.num_cached;
      r->num_cached = event.num_cached;
      r->copies = event.copies;
      r->planned_kv = event.num_cached;
      r->known_length = r->upper_length = r->target->length(); // no program of it is under way
      r->decoding = false;
      r->order = next_order_++;
      r->group = choose_group(*r);
      counters_.cached_prompt_tokens += event.num_cached;
      ++counters_.num_admitted;
      std::erase(queue_, event.request);
      running_.push_back(event.request);
    } else {
      r->state = phase::waiting;
      admission_blocked_ = true;
    }
  }
  retire_if_idle(event.request, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::on_blocks_freed(time_point now) {
  decisions out;
  admission_blocked_ = false;
  for (auto& [id, r] : requests_) r.target_lease.refused = r.drafter_lease.refused = false;
  pump(out, now);
  return out;
}

decisions scheduler_state::on_pool_restarted(time_point now) {
  decisions out;
  retain_command alive;
  for (auto id : running_) alive.requests.push_back(id);
  out.pool.emplace_back(std::move(alive));
  for (auto& [id, r] : requests_) {
    r.target_lease.asked = r.drafter_lease.asked = 0;
    r.target_lease.refused = r.drafter_lease.refused = false; // the news that blocks came back may be lost
    if (r.state == phase::acquiring) r.state = phase::waiting;
  }
  admission_blocked_ = false;
  for (auto id : std::vector(running_)) retire_if_idle(id, out);
  pump(out, now);
  return out;
}

void scheduler_state::admit(decisions& out) {
  if (admission_blocked_ || queue_.empty() || running_.size() >= options_.max_running) return;
  // Those who run get their blocks first; a newcomer would take what a starving request waits for.
  for (auto id : running_)
    if (const auto& lease = requests_.at(id).target_lease; lease.asked || lease.refused) return;
  auto& r = requests_.at(queue_.front());
  if (r.state == phase::acquiring) return; // one at a time, in order
  r.state = phase::acquiring;
  const auto& request = r.target->request();
  acquire_command ask;
  ask.request = r.target->id();
  ask.tokens.assign(r.target->tokens().begin(), r.target->tokens().end());
  ask.salt = request.cache_salt;
  ask.use_cache = options_.prefix_cache && !request.sampling.prompt_logprobs;
  ask.num_positions = std::min(r.target->length() + r.draft_length + 1, max_positions(r));
  ask.ticket = r.target_lease.asked = next_ticket_++;
  out.pool.emplace_back(std::move(ask));
}

void scheduler_state::want_blocks(record& r, lease& lease, std::uint32_t pool, std::uint32_t num_positions,
                                  decisions& out) {
  if (lease.asked || lease.refused || lease.positions(options_.block_size) >= num_positions) return;
  lease.asked = next_ticket_++;
  out.pool.emplace_back(reserve_command{r.target->id(), pool, num_positions, lease.asked});
}

void scheduler_state::roll_back(record& r, decisions& out) {
  // Rounds in flight reach up to upper_length at most, so what lies beyond that and the look-ahead is
  // nobody's.
  const auto keep = look_ahead(r);
  auto& lease = r.target_lease;
  const auto num_blocks = (keep + options_.block_size - 1) / options_.block_size;
  if (lease.asked || r.state != phase::running || lease.blocks.size() <= num_blocks) return;
  lease.blocks.resize(num_blocks);
  out.pool.emplace_back(rollback_command{r.target->id(), 0, keep, lease.last_use});
}

void scheduler_state::preempt_youngest(decisions& out) {
  // Youngest first; the oldest is never preempted, so somebody always gets on.
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    auto& victim = requests_.at(*it);
    if (victim.state != phase::running) return; // its blocks come back soon
    // Alone, it gives back what it holds rather than wait with it: who has the rest may be waiting for these
    // blocks.
    const bool oldest = it + 1 == running_.rend();
    if (oldest && (running_.size() > 1 || victim.num_in_flight > 0)) return;
    if (victim.preempting) return;
    victim.preempting = true;
    ++counters_.num_preemptions;
    retire_if_idle(*it, out);
    return;
  }
}

void scheduler_state::release(record& r, decisions& out) {
  const auto id = r.target->id();
  out.pool.emplace_back(release_command{id, 0, r.target_lease.last_use});
  if (const auto pool = options_.drafters[r.drafter].pool; pool != 0)
    out.pool.emplace_back(release_command{id, pool, r.drafter_lease.last_use});
  r.target_lease = {};
  r.drafter_lease = {};
}

std::uint32_t scheduler_state::max_positions(const record& r) const {
  const auto& request = r.target->request();
  const std::uint64_t wanted = std::uint64_t{r.target->prompt_length()} + request.stop.max_tokens;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options_.context_length));
}

std::uint32_t scheduler_state::look_ahead(const record& r) const {
  return std::min(r.upper_length + 2 * (r.draft_length + 1), max_positions(r)); // of this round and the next
}

} // namespace paceline::scheduling
