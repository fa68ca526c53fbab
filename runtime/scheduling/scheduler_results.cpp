#include "runtime/scheduling/scheduler_state.hpp"

#include <algorithm>

// The effects of ended rounds, and of rounds that never ran, on their requests.

namespace paceline::scheduling {

decisions scheduler_state::on_round_done(const round_result& result, time_point now) {
  decisions out;
  const auto found = rounds_in_flight_.find(result.round);
  if (found == rounds_in_flight_.end()) return out; // reported twice after a restart
  const auto reported = std::move(found->second);
  rounds_in_flight_.erase(found);
  blocks_given_up_ = false;
  ledger_.forget_ways(); // the preempted request may have held only shared blocks, about which the pool sends
                         // no message
  for (auto& [round, f] : rounds_in_flight_)
    if (f.group == reported.group) f.since = now;
  ++counters_.num_rounds;
  completed_.resize(std::max(completed_.size(), result.submissions.size()));
  for (std::size_t p = 0; p < result.submissions.size(); ++p)
    completed_[p] = std::max(completed_[p], result.submissions[p]);
  tell_completed(result.submissions, out);

  std::uint32_t num_context = 0, num_rows = 0;
  for (const auto& part : reported.parts) {
    auto* r = find(part.request);
    if (!r) continue;
    --r->num_in_flight;
    settle_length(*r);
    ledger_.note_submissions(part.request, result.submissions);
    if (result.failure && r->state == phase::running)
      finish_here(*r, finish_reason::error, result.failure, out);
    num_context += part.num_context > 1 ? part.num_context : 0;
  }
  for (const auto& item : result.items) {
    num_rows += item.num_rows;
    if (auto* r = find(item.request)) settle_item(*r, item, out);
  }
  count_time(result, num_context);
  note_drafters(result, now);
  out.failed_drafters = result.failed_drafters;
  watch_period(reported, result, num_context, now);
  costs_.observe(num_context, num_rows - std::min(num_rows, num_context), result.duration);
  for (const auto& part : reported.parts) {
    leave_worker(part.request, out);
    retire_if_idle(part.request, out);
  }
  pump(out, now);
  return out;
}

/// Tells each pool the number of the last completed program on its stream. An entry of 0 in `last` means
/// none.
void scheduler_state::tell_completed(const std::vector<std::uint64_t>& last, decisions& out) {
  for (pool_number pool; pool.value < last.size(); ++pool.value)
    if (last[pool.value] != 0) out.pool.emplace_back(watermark_event{pool, last[pool.value]});
}

decisions scheduler_state::on_rounds_lost(const std::vector<round_id>& known, time_point now) {
  decisions out;
  for (auto f = rounds_in_flight_.begin(); f != rounds_in_flight_.end();) {
    if (std::ranges::find(known, f->first) != known.end()) {
      ++f;
      continue;
    }
    for (const auto& part : f->second.parts)
      if (auto* r = find(part.request)) --r->num_in_flight;
    const auto parts = std::move(f->second.parts);
    f = rounds_in_flight_.erase(f);
    for (const auto& part : parts) {
      auto* r = find(part.request);
      if (!r) continue;
      // The context rows of the lost round are planned again.
      r->planned_kv -= std::min(r->planned_kv, part.num_context);
      r->num_scored -= part.num_scores;
      settle_length(*r);
      if (part.growth > 0 && part.num_context > 0) r->decoding = false;
      if (part.restart) {
        r->restart_at = part.restart;
        r->copies = part.copies;
      }
      leave_worker(part.request, out);
      retire_if_idle(part.request, out);
    }
  }
  pump(out, now);
  return out;
}

bool scheduler_state::device_lost() const {
  return std::ranges::any_of(rounds_in_flight_, [](const auto& f) { return f.second.overdue; });
}

/// Watches the rounds of each group. They run one after another, and each may take `round_timeout` from the
/// report of the previous one.
void scheduler_state::watch_rounds(decisions& out, time_point now) {
  const bool lost_before = device_lost();
  round_id late;
  for (auto& [round, f] : rounds_in_flight_) {
    if (f.overdue || now - f.since < options_.round_timeout) continue;
    f.overdue = true;
    late = round;
  }
  if (lost_before || !device_lost()) return;
  ++counters_.num_device_losses;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options_.round_timeout).count();
  const error lost{errc::device_lost,
                   "round " + to_string(late) + " has not come back for " + std::to_string(limit) + " ms"};
  std::vector<request_id> open;
  for (const auto& [id, r] : requests_)
    if (r.state != phase::closing) open.push_back(id);
  for (auto id : open) finish_here(requests_.at(id), finish_reason::error, lost, out);
}

void scheduler_state::settle_item(record& r, const item_result& item, decisions& out) {
  count_speculation(item);
  r.advice = item.advice;
  const bool is_contrary = r.worker && r.advice.drafter && r.advice.drafter != r.worker;
  r.num_contrary = is_contrary ? r.num_contrary + 1 : 0;
  if (item.num_levels > 0) { // beside its draft a round has one row; of beam searches the size is not used
    const double size = (item.num_rows - 1.0) / num_nodes(r, item.num_levels);
    r.lengths.on_verified(item.num_levels, item.num_accepted, size);
  }
  counters_.generation_tokens += item.length - r.known_length;
  r.known_length = std::max(r.known_length, item.length);
  r.num_cells = item.num_cells;
  settle_length(r);
  const auto first = item.length - static_cast<std::uint32_t>(item.committed.size());
  out.pool.emplace_back(
      commit_command{item.request, target_pool, first, item.committed, item.kv_length, item.snapshots});
  ledger_.note_drafter_cells(item.request, item.num_drafter_cells, out.pool);
  if (item.num_draft > item.num_accepted) {
    ++counters_.num_rollbacks;
    counters_.rolled_back_tokens += item.num_draft - item.num_accepted;
  }
  if (ledger_.tight() || item.num_draft > item.num_accepted) ledger_.roll_back(item.request, out.pool);
  if (item.finish != finish_reason::none && r.state == phase::running) {
    count_finish(item.finish);
    r.state = phase::closing;
    ledger_.tell(item.request, use_of(r));
  }
}

/// Computes the upper bound of the request's length after the rounds in flight: the known length, plus what
/// each round may add. Rejected drafts no longer count.
void scheduler_state::settle_length(record& r) {
  r.upper_length = r.beam_width != 0 ? std::max(r.known_length, r.num_cells) : r.known_length;
  r.upper_slot = 0;
  for (const auto& [round, f] : rounds_in_flight_) // in the order in which they run
    for (const auto& part : f.parts) {
      if (part.request != r.request.id()) continue;
      r.upper_slot = std::max(r.upper_slot, r.upper_length + part.num_nodes);
      r.upper_length += part.growth;
    }
  ledger_.tell(r.request.id(), use_of(r));
}

/// Observes the time from the previous report to this round's report. It shows how well the round overlapped
/// with drafting.
void scheduler_state::watch_period(const round_in_flight& f, const round_result& result,
                                   std::uint32_t num_prompt_rows, time_point now) {
  const bool counts = num_prompt_rows == 0 && !both_groups() && !result.failure;
  if (counts && f.overlap && last_report_)
    overlap_.observe(*f.overlap, static_cast<std::uint32_t>(result.items.size()), now - *last_report_);
  last_report_ = counts && !rounds_in_flight_.empty() ? std::optional(now) : std::nullopt;
}

void scheduler_state::count_time(const round_result& result, std::uint32_t num_prompt_rows) {
  for (const auto& spent : result.drafting) {
    counters_.drafters[spent.drafter.value].num_foreseen += spent.num_foreseen;
    counters_.drafters[spent.drafter.value].num_ready += spent.num_ready;
  }
  if (num_prompt_rows > 0) {
    counters_.prompts += result.duration;
    return;
  }
  pass_costs_.observe(result.num_rows, static_cast<double>(result.times.pass.count()));
  for (const auto& spent : result.drafting) {
    if (spent.num_drafted == 0 || spent.catching_up)
      continue; // only drafts that were made after a verdict count here
    double& step = draft_step_[spent.drafter.value];
    const auto now = static_cast<double>(spent.duration.count()) / spent.num_levels;
    step += (step == 0 ? 1.0 : 0.1) * (now - step);
  }
  count_drafted_round(result);
  ++counters_.num_decoding_rounds;
  if (result.num_rows > 0) {
    // Its size covers the most requests of a round, each with a draft.
    auto& by_rows = counters_.decoding_by_rows;
    if (by_rows.size() < result.num_rows) by_rows.resize(result.num_rows);
    ++by_rows[result.num_rows - 1].num;
    by_rows[result.num_rows - 1].duration += result.times.pass + result.times.decide;
  }
  counters_.decoding.draft += result.times.draft;
  counters_.decoding.pass += result.times.pass;
  counters_.decoding.decide += result.times.decide;
}

void scheduler_state::count_drafted_round(const round_result& result) {
  if (result.drafting.size() != 1) return;
  const auto& draft = result.drafting.front();
  if (draft.catching_up || draft.num_drafted == 0 || draft.num_drafted != result.items.size()) return;
  auto& all = counters_.drafted_by_requests;
  if (all.size() < draft.num_drafted) all.resize(draft.num_drafted);
  auto& same = all[draft.num_drafted - 1];
  ++same.num;
  same.verification += result.duration;
  same.drafting += draft.duration;
}

void scheduler_state::count_speculation(const item_result& item) {
  counters_.stale_drafts += item.stale_draft ? 1 : 0;
  if (item.num_draft == 0) return;
  auto& d = counters_.drafters[item.drafter.value];
  ++d.num_rounds;
  d.num_draft_tokens += item.num_draft;
  d.num_accepted_tokens += item.num_accepted;
  if (d.accepted_per_position.size() < item.num_accepted) d.accepted_per_position.resize(item.num_accepted);
  for (std::uint32_t j = 0; j < item.num_accepted; ++j) ++d.accepted_per_position[j];
}

} // namespace paceline::scheduling
