#include "engine/counters.hpp"

#include "engine/model_unit.hpp"

#include <chrono>

namespace paceline {
namespace {

double seconds_of(std::chrono::nanoseconds d) { return std::chrono::duration<double>(d).count(); }

} // namespace

void add_scheduler_counters(model_counters& out, const protocol::scheduler_answer& from,
                            const model_unit& unit) {
  const auto& c = from.counters;
  out.num_running = from.num_running;
  out.num_waiting = from.num_waiting;
  out.num_admitted = c.num_admitted;
  out.num_preemptions = c.num_preemptions;
  out.num_rejections_queue_full = c.num_queue_full;
  out.num_device_losses = c.num_device_losses;
  out.finished_stop = c.finished_stop;
  out.finished_length = c.finished_length;
  out.finished_cancelled = c.finished_cancelled;
  out.finished_error = c.finished_error;
  out.prompt_tokens = c.prompt_tokens;
  out.cached_prompt_tokens = c.cached_prompt_tokens;
  out.generation_tokens = c.generation_tokens;
  out.num_rounds = c.num_rounds;
  out.num_rollbacks = c.num_rollbacks;
  out.rolled_back_tokens = c.rolled_back_tokens;
  out.stale_drafts = c.stale_drafts;
  out.num_decoding_rounds = c.num_decoding_rounds;
  out.prompt_seconds = seconds_of(c.prompts);
  out.draft_seconds = seconds_of(c.decoding.draft);
  out.pass_seconds = seconds_of(c.decoding.pass);
  out.decide_seconds = seconds_of(c.decoding.decide);
  for (const auto& passes : c.decoding_by_rows)
    out.decoding_by_rows.push_back({passes.num, seconds_of(passes.duration)});
  for (const auto& r : c.drafted_by_requests)
    out.drafted_by_requests.push_back({r.num, seconds_of(r.verification), seconds_of(r.drafting)});
  for (std::size_t d = 1; d < c.drafters.size(); ++d) {
    if (!unit.drafters[d].drafter) continue; // "auto" drafts through the other drafters
    const auto& of = c.drafters[d];
    out.drafters.push_back({unit.drafters[d].options.name,
                            of.num_rounds,
                            of.num_draft_tokens,
                            of.num_accepted_tokens,
                            of.accepted_per_position,
                            of.num_foreseen,
                            of.num_ready,
                            of.num_failures,
                            {}});
  }
}

void add_pool_gauges(model_counters& out, const protocol::pool_answer& from, const model_unit& unit) {
  const auto needs = unit.pool_needs();
  for (std::size_t p = 0; p < from.usage.size(); ++p) {
    const auto& u = from.usage[p];
    const auto& c = from.counters[p];
    pool_gauges& g = out.pools.emplace_back();
    g.name = needs[p].name;
    g.num_blocks = std::uint64_t{u.num_active} + u.num_deferred + u.num_cached + u.num_free + u.num_absent;
    g.active_blocks = u.num_active;
    g.cached_blocks = u.num_cached;
    g.deferred_blocks = u.num_deferred;
    g.free_blocks = std::uint64_t{u.num_free} + u.num_absent;
    g.held_state_slots = u.num_held_state_slots;
    g.idle_snapshots = u.num_idle_snapshots;
    g.free_state_slots = u.num_free_state_slots;
    g.num_state_slots = g.held_state_slots + g.idle_snapshots + g.free_state_slots;
    g.prefix_query_tokens = c.num_queried_tokens;
    g.prefix_hit_tokens = c.num_hit_tokens;
    g.num_evictions = c.num_evicted_blocks;
  }
}

void add_device_times(model_counters& out, const model_unit& unit) {
  const auto busy = unit.log->totals();
  out.target_busy_seconds = seconds_of(busy.target);
  out.draft_busy_seconds = seconds_of(busy.draft);
  out.overlap_seconds = seconds_of(busy.both);
  const auto steps = unit.device->times();
  out.num_device_steps = steps.num_steps;
  out.device_busy_seconds = seconds_of(steps.busy);
  out.device_launching_seconds = seconds_of(steps.launching);
}

} // namespace paceline
