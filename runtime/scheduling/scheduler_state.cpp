#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

namespace paceline::scheduling {

namespace {

constexpr std::size_t max_tombstones = 4096;
constexpr std::uint32_t max_logprob_rows = 64; ///< each needs a row of logits

token_event final_event(request_id request, finish_reason reason, std::optional<error> failure) {
  token_event event;
  event.request = request;
  event.finish = reason;
  event.failure = std::move(failure);
  return event;
}

} // namespace

scheduler_state::scheduler_state(scheduler_options options) : options_(std::move(options)) {
  counters_.drafters.resize(options_.drafters.size());
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

decisions scheduler_state::submit(std::shared_ptr<sequence> request, std::uint32_t drafter, std::uint64_t credit,
                                  time_point now) {
  decisions out;
  const auto id = request->id();
  if (requests_.contains(id) || ended_.contains(id)) return out; // submitted again after a restart
  const auto refuse = [&](finish_reason reason, std::optional<error> failure) {
    count_finish(reason);
    out.events.push_back(final_event(id, reason, std::move(failure)));
    return std::move(out);
  };
  if (tombstones_.erase(id) > 0) return refuse(finish_reason::cancelled, std::nullopt);
  if (draining_) return refuse(finish_reason::error, error{errc::draining, "the server is shutting down"});
  if (num_waiting() >= options_.max_waiting) {
    ++counters_.num_queue_full;
    return refuse(finish_reason::error, error{errc::queue_full, "the queue holds " + std::to_string(options_.max_waiting) + " requests already"});
  }
  record r;
  r.target = std::move(request);
  r.drafter = drafter;
  r.draft_length = r.target->request().speculation.draft_length.value_or(options_.drafters.at(drafter).default_draft_length);
  if (drafter == 0) r.draft_length = 0;
  r.credit = credit;
  r.deadline = now + r.target->request().timeout;
  const std::uint64_t pool_positions = std::uint64_t{options_.num_blocks} * options_.block_size;
  if (max_positions(r) > pool_positions)
    return refuse(finish_reason::error, error{errc::context_length_exceeded,
      "prompt and max_tokens need " + std::to_string(max_positions(r)) + " positions, the KV pool has " + std::to_string(pool_positions)});
  counters_.prompt_tokens += r.target->prompt_length();
  const auto priority = r.target->request().priority;
  const auto place = std::ranges::find_if(queue_, [&](request_id other) {
    const auto& o = requests_.at(other);
    return o.state == phase::waiting && o.target->request().priority > priority;
  });
  queue_.insert(place, id);
  requests_.emplace(id, std::move(r));
  pump(out, now);
  return out;
}

decisions scheduler_state::cancel(request_id request, time_point now) {
  decisions out;
  auto* r = find(request);
  if (!r) { // it may have overtaken its own request
    tombstones_.insert(request);
    if (tombstones_.size() > max_tombstones) tombstones_.erase(tombstones_.begin());
    return out;
  }
  if (r->state != phase::closing) finish_here(*r, finish_reason::cancelled, std::nullopt, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::grant(request_id request, std::uint64_t tokens, time_point now) {
  decisions out;
  if (auto* r = find(request)) {
    r->credit = std::max(r->credit, tokens);
    pump(out, now);
  }
  return out;
}

decisions scheduler_state::on_lease(const lease_event& event, time_point now) {
  decisions out;
  auto* r = find(event.request);
  if (!r) { // gone meanwhile: whatever was granted goes back
    if (event.granted) out.pool.push_back(release_command{event.request, event.pool, 0});
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

decisions scheduler_state::on_round_done(const round_result& result, time_point now) {
  decisions out;
  const auto found = flights_.find(result.round);
  if (found == flights_.end()) return out; // reported twice after a restart
  const auto flight = std::move(found->second);
  flights_.erase(found);
  ++counters_.num_rounds;
  for (std::uint32_t pool = 0; pool < result.submissions.size(); ++pool)
    if (result.submissions[pool] != 0) out.pool.push_back(watermark_event{pool, result.submissions[pool]});

  std::uint32_t num_context = 0, num_rows = 0;
  for (const auto& part : flight.parts) {
    auto* r = find(part.request);
    if (!r) continue;
    --r->num_in_flight;
    const auto submission = [&](std::uint32_t pool) { return pool < result.submissions.size() ? result.submissions[pool] : 0; };
    r->target_lease.last_use = std::max(r->target_lease.last_use, submission(0));
    if (const auto pool = options_.drafters[r->drafter].pool; pool != 0)
      r->drafter_lease.last_use = std::max(r->drafter_lease.last_use, submission(pool));
    if (result.failure && r->state == phase::running) finish_here(*r, finish_reason::error, result.failure, out);
    num_context += part.num_context > 1 ? part.num_context : 0;
  }
  for (const auto& item : result.items) {
    num_rows += item.num_rows;
    if (auto* r = find(item.request)) settle_item(*r, item, out);
  }
  costs_.observe(num_context, num_rows - std::min(num_rows, num_context), result.duration);
  for (const auto& part : flight.parts) retire_if_idle(part.request, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::on_tick(time_point now) {
  decisions out;
  std::vector<request_id> late;
  for (const auto& [id, r] : requests_)
    if (r.state != phase::closing && now >= r.deadline) late.push_back(id);
  for (auto id : late)
    finish_here(requests_.at(id), finish_reason::error, error{errc::deadline_exceeded, "the request took longer than its timeout"}, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::on_pool_restarted(time_point now) {
  decisions out;
  retain_command alive;
  for (auto id : running_) alive.requests.push_back(id);
  out.pool.push_back(std::move(alive));
  for (auto& [id, r] : requests_) {
    r.target_lease.asked = r.drafter_lease.asked = 0;
    if (r.state == phase::acquiring) r.state = phase::waiting;
  }
  admission_blocked_ = false;
  for (auto id : std::vector(running_)) retire_if_idle(id, out);
  pump(out, now);
  return out;
}

decisions scheduler_state::on_rounds_lost(const std::vector<round_id>& known, time_point now) {
  decisions out;
  for (auto f = flights_.begin(); f != flights_.end();) {
    if (std::ranges::find(known, f->first) != known.end()) {
      ++f;
      continue;
    }
    for (const auto& part : f->second.parts)
      if (auto* r = find(part.request)) --r->num_in_flight;
    const auto parts = std::move(f->second.parts);
    f = flights_.erase(f);
    for (const auto& part : parts) {
      auto* r = find(part.request);
      if (!r) continue;
      // What the lost round would have computed is planned again.
      r->planned_kv -= std::min(r->planned_kv, part.num_context);
      if (r->num_in_flight == 0) r->upper_length = r->known_length;
      if (part.growth > 0 && part.num_context > 0) r->decoding = false;
      if (part.restart) r->restart_at = part.restart;
      retire_if_idle(part.request, out);
    }
  }
  pump(out, now);
  return out;
}

// ---- what to do next --------------------------------------------------------------------------------------------------

void scheduler_state::pump(decisions& out, time_point) {
  const std::uint32_t num_groups = options_.two_groups ? 2 : 1;
  for (std::uint32_t g = 0; g < num_groups; ++g)
    while (in_flight(group_id{g}) < depth(group_id{g})) {
      const auto before = out.rounds.size();
      compose(group_id{g}, out);
      if (out.rounds.size() == before) break;
    }
  admit(out);
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
  out.pool.push_back(std::move(ask));
}

void scheduler_state::compose(group_id group, decisions& out) {
  round_plan plan{round_id{next_round_}, group, {}};
  flight flight{group, {}};
  std::uint32_t prompt_rows = prompt_row_budget(group);
  for (auto id : std::vector(running_)) { // a copy: a preemption below shortens the list
    auto* entry = find(id);
    if (!entry || entry->group != group || entry->state != phase::running || entry->preempting) continue;
    auto& r = *entry;
    flight::part part{id, 0, 0, {}};
    auto item = r.decoding ? decode_item(r, part, out) : prompt_item(r, prompt_rows, part);
    if (!item) continue;
    ++r.num_in_flight;
    r.upper_length += part.growth;
    plan.items.push_back(std::move(*item));
    flight.parts.push_back(part);
  }
  if (plan.items.empty()) return;
  ++next_round_;
  flights_.emplace(plan.round, std::move(flight));
  out.rounds.push_back(std::move(plan));
}

std::optional<plan_item> scheduler_state::prompt_item(record& r, std::uint32_t& prompt_rows, flight::part& part) {
  const auto rest = r.known_length - r.planned_kv;
  auto rows = std::min(rest, prompt_rows);
  if (r.target->request().sampling.prompt_logprobs) rows = std::min(rows, max_logprob_rows);
  if (rows == 0) return std::nullopt;
  prompt_rows -= rows;
  plan_item item;
  item.target = r.target;
  item.blocks = r.target_lease.blocks;
  item.max_rows = rows;
  item.restart_at = std::exchange(r.restart_at, std::nullopt);
  item.num_cached_tokens = r.num_cached;
  item.copies = std::exchange(r.copies, {});
  r.planned_kv += rows;
  r.decoding = rows == rest;
  part.num_context = rows;
  part.growth = r.decoding ? 1 : 0;
  part.restart = item.restart_at;
  return item;
}

std::optional<plan_item> scheduler_state::decode_item(record& r, flight::part& part, decisions& out) {
  const auto spent = std::uint64_t{r.upper_length - r.target->prompt_length()};
  if (r.credit <= spent) return std::nullopt; // the client does not keep up
  if (r.upper_length >= max_positions(r) && r.num_in_flight > 0) return std::nullopt; // it ends in a round in flight, or nearly
  auto length = usable_draft_length(r, out);
  length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, r.credit - spent - 1));
  const auto positions = r.target_lease.positions(options_.block_size);
  want_blocks(r, r.target_lease, 0, look_ahead(r), out);
  if (positions < std::min(r.upper_length, max_positions(r))) { // no cell for the last token
    if (r.target_lease.refused) preempt_youngest(out);
    return std::nullopt;
  }
  plan_item item;
  item.target = r.target;
  item.blocks = r.target_lease.blocks;
  item.max_rows = 1;
  item.drafter = length > 0 ? r.drafter : 0;
  item.draft_length = length;
  if (length > 0 && options_.drafters[r.drafter].pool != 0) {
    item.drafter_blocks = r.drafter_lease.blocks;
    item.drafter_restart = std::exchange(r.drafter_lease.fresh, false);
  }
  part.growth = 1 + length;
  return item;
}

std::uint32_t scheduler_state::usable_draft_length(record& r, decisions& out) {
  auto length = r.draft_length;
  const auto pool = options_.drafters[r.drafter].pool;
  if (length == 0 || pool == 0) return length;
  // Without memory of its own the drafter waits; that costs speed, never progress.
  want_blocks(r, r.drafter_lease, pool, look_ahead(r), out);
  const auto positions = r.drafter_lease.positions(options_.block_size);
  return positions > r.upper_length ? std::min(length, positions - r.upper_length) : 0;
}

void scheduler_state::want_blocks(record& r, lease& lease, std::uint32_t pool, std::uint32_t num_positions, decisions& out) {
  if (lease.asked || lease.refused || lease.positions(options_.block_size) >= num_positions) return;
  lease.asked = next_ticket_++;
  out.pool.push_back(reserve_command{r.target->id(), pool, num_positions, lease.asked});
}

void scheduler_state::preempt_youngest(decisions& out) {
  // Youngest first; the oldest is never preempted, so somebody always gets on.
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    auto& victim = requests_.at(*it);
    if (victim.state != phase::running) return; // its blocks come back soon
    // Alone and refused, its blocks double some that the prefix cache holds for it: started again, it shares them.
    const bool oldest = it + 1 == running_.rend();
    if (oldest && (running_.size() > 1 || victim.num_in_flight > 0)) return;
    if (victim.preempting) return;
    victim.preempting = true;
    ++counters_.num_preemptions;
    retire_if_idle(*it, out);
    return;
  }
}

// ---- results ----------------------------------------------------------------------------------------------------------

void scheduler_state::settle_item(record& r, const item_result& item, decisions& out) {
  count_speculation(item);
  counters_.generation_tokens += item.length - r.known_length;
  r.known_length = std::max(r.known_length, item.length);
  if (r.num_in_flight == 0) r.upper_length = r.known_length;
  const auto first = item.length - static_cast<std::uint32_t>(item.committed.size());
  out.pool.push_back(commit_command{item.request, 0, first, item.committed, item.kv_length});
  if (item.num_draft > item.num_accepted) {
    ++counters_.num_rollbacks;
    counters_.rolled_back_tokens += item.num_draft - item.num_accepted;
    roll_back(r, out);
  }
  if (item.finish != finish_reason::none && r.state == phase::running) {
    count_finish(item.finish);
    r.state = phase::closing;
  }
}

void scheduler_state::roll_back(record& r, decisions& out) {
  // Rounds in flight reach up to upper_length at most, so what lies beyond that and the look-ahead is nobody's.
  const auto keep = look_ahead(r);
  auto& lease = r.target_lease;
  const auto num_blocks = (keep + options_.block_size - 1) / options_.block_size;
  if (lease.asked || r.state != phase::running || lease.blocks.size() <= num_blocks) return;
  lease.blocks.resize(num_blocks);
  out.pool.push_back(rollback_command{r.target->id(), 0, keep, lease.last_use});
}

void scheduler_state::count_speculation(const item_result& item) {
  counters_.stale_drafts += item.stale_draft ? 1 : 0;
  if (item.num_draft == 0) return;
  auto& d = counters_.drafters[item.drafter];
  ++d.num_rounds;
  d.num_draft_tokens += item.num_draft;
  d.num_accepted_tokens += item.num_accepted;
  if (d.accepted_per_position.size() < item.num_accepted) d.accepted_per_position.resize(item.num_accepted);
  for (std::uint32_t j = 0; j < item.num_accepted; ++j) ++d.accepted_per_position[j];
}

void scheduler_state::finish_here(record& r, finish_reason reason, std::optional<error> failure, decisions& out) {
  const auto id = r.target->id();
  count_finish(reason);
  out.events.push_back(final_event(id, reason, std::move(failure)));
  if (r.state == phase::waiting || r.state == phase::acquiring) { // an answer under way will give its blocks back
    std::erase(queue_, id);
    forget(id);
    return;
  }
  r.state = phase::closing;
  retire_if_idle(id, out);
}

void scheduler_state::retire_if_idle(request_id request, decisions& out) {
  auto* r = find(request);
  if (!r || r->num_in_flight > 0 || r->target_lease.asked || r->drafter_lease.asked) return;
  if (r->state == phase::closing) {
    release(*r, out);
    std::erase(running_, request);
    forget(request);
  } else if (r->state == phase::running && r->preempting) {
    release(*r, out);
    r->state = phase::waiting;
    r->preempting = false;
    std::erase(running_, request);
    queue_.push_front(request);
    admission_blocked_ = true; // until blocks come back: those who run go first
  }
}

void scheduler_state::forget(request_id request) {
  requests_.erase(request);
  ended_.insert(request);
  if (ended_.size() > max_tombstones) ended_.erase(ended_.begin());
}

void scheduler_state::release(record& r, decisions& out) {
  const auto id = r.target->id();
  out.pool.push_back(release_command{id, 0, r.target_lease.last_use});
  if (const auto pool = options_.drafters[r.drafter].pool; pool != 0)
    out.pool.push_back(release_command{id, pool, r.drafter_lease.last_use});
  r.target_lease = {};
  r.drafter_lease = {};
}

void scheduler_state::count_finish(finish_reason reason) {
  switch (reason) {
  case finish_reason::stop: ++counters_.finished_stop; break;
  case finish_reason::length: ++counters_.finished_length; break;
  case finish_reason::cancelled: ++counters_.finished_cancelled; break;
  case finish_reason::error: ++counters_.finished_error; break;
  case finish_reason::none: break;
  }
}

// ---- questions --------------------------------------------------------------------------------------------------------

scheduler_state::record* scheduler_state::find(request_id request) {
  const auto it = requests_.find(request);
  return it == requests_.end() ? nullptr : &it->second;
}

std::uint32_t scheduler_state::num_running() const { return static_cast<std::uint32_t>(running_.size()); }
std::uint32_t scheduler_state::num_waiting() const { return static_cast<std::uint32_t>(queue_.size()); }

std::uint32_t scheduler_state::in_flight(group_id group) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(flights_, [&](const auto& f) { return f.second.group == group; }));
}

std::uint32_t scheduler_state::num_in_group(group_id group) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(running_, [&](auto id) {
    const auto& r = requests_.at(id);
    return r.group == group && r.state == phase::running;
  }));
}

std::uint32_t scheduler_state::depth(group_id) const {
  // Alone, a group keeps a second round enqueued, so that its stream never waits for the host. Two groups do that for
  // each other, and plan on fresher results.
  const bool both = options_.two_groups && num_in_group(group_id{0}) > 0 && num_in_group(group_id{1}) > 0;
  return both ? 1 : 2;
}

std::uint32_t scheduler_state::num_streams() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(running_, [&](auto id) {
    const auto& r = requests_.at(id);
    return r.decoding && r.state == phase::running;
  }));
}

std::uint32_t scheduler_state::prompt_row_budget(group_id group) const {
  if (num_streams() == 0) return options_.max_prompt_rows;
  // A stream's pause is one round of its own group and, with two groups, one of the other. A fifth is kept in reserve.
  const auto rounds = depth(group) == 1 ? 2 : 1;
  return costs_.prompt_rows_within(options_.max_gap * 4 / (5 * rounds), 1, options_.max_prompt_rows);
}

std::uint32_t scheduler_state::max_positions(const record& r) const {
  const auto& request = r.target->request();
  const std::uint64_t wanted = std::uint64_t{r.target->prompt_length()} + request.stop.max_tokens;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, options_.context_length));
}

std::uint32_t scheduler_state::look_ahead(const record& r) const {
  return std::min(r.upper_length + 2 * (r.draft_length + 1), max_positions(r)); // of this round and the next
}

group_id scheduler_state::choose_group(const record& r) const {
  if (!options_.two_groups || !options_.drafters[r.drafter].worker) return group_id{0};
  return num_in_group(group_id{0}) <= num_in_group(group_id{1}) ? group_id{0} : group_id{1};
}

std::string scheduler_state::check_invariants() const {
  std::map<request_id, std::uint32_t> items;
  for (const auto& [round, f] : flights_)
    for (const auto& part : f.parts) {
      ++items[part.request];
      const auto it = requests_.find(part.request);
      if (it != requests_.end() && it->second.group != f.group) return "request " + to_string(part.request) + " is in a round of another group";
    }
  for (const auto& [id, r] : requests_) {
    const bool queued = std::ranges::find(queue_, id) != queue_.end();
    const bool listed = std::ranges::find(running_, id) != running_.end();
    const bool wants_queue = r.state == phase::waiting || r.state == phase::acquiring;
    if (queued != wants_queue || listed == wants_queue) return "request " + to_string(id) + " is in the wrong list";
    if (r.num_in_flight != items[id]) return "request " + to_string(id) + " counts " + std::to_string(r.num_in_flight) + " rounds, has " + std::to_string(items[id]);
    if (wants_queue && !r.target_lease.blocks.empty()) return "request " + to_string(id) + " waits with blocks";
    if (r.upper_length < r.known_length) return "request " + to_string(id) + " knows more than it may";
  }
  if (queue_.size() + running_.size() != requests_.size()) return "lists and table differ";
  for (std::uint32_t g = 0; g < 2; ++g)
    if (in_flight(group_id{g}) > 2) return "group " + std::to_string(g) + " has too many rounds in flight";
  return {};
}

std::string scheduler_state::describe() const {
  static constexpr const char* names[] = {"waiting", "acquiring", "running", "closing"};
  std::string out = admission_blocked_ ? "admission waits for blocks\n" : "";
  const auto lease_text = [&](const lease& l) {
    return std::to_string(l.positions(options_.block_size)) + " positions" + (l.asked ? ", asked" : "") + (l.refused ? ", refused" : "");
  };
  for (const auto& [id, r] : requests_)
    out += "request " + to_string(id) + ": " + names[static_cast<int>(r.state)] + (r.preempting ? ", preempting" : "") +
           ", length " + std::to_string(r.known_length) + " to " + std::to_string(r.upper_length) + " of " +
           std::to_string(max_positions(r)) + (r.decoding ? ", decoding" : ", prompt planned to " + std::to_string(r.planned_kv)) + ", " +
           std::to_string(r.num_in_flight) + " rounds in flight, lease of " + lease_text(r.target_lease) + ", drafter's of " +
           lease_text(r.drafter_lease) + "\n";
  for (const auto& [round, f] : flights_)
    out += "round " + to_string(round) + " of group " + to_string(f.group) + ": " + std::to_string(f.parts.size()) + " requests\n";
  return out;
}

} // namespace paceline::scheduling
