#include "runtime/rounds/draft_runner.hpp"

#include "runtime/device/stopwatch.hpp"
#include "runtime/rounds/beam_drafts.hpp"
#include "runtime/rounds/draft_tasks.hpp"

#include <exception>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

draft_runner::draft_runner(speculation::drafter& drafter, drafter_index index, model::kv_storage* kv,
                           std::uint32_t target_block_size, std::uint32_t context_length, const clock& time,
                           std::uint32_t num_guesses, const model::kv_storage* target_kv)
    : drafter_(&drafter), index_(index), kv_(kv),
      target_kv_(drafter.traits().reads_target() ? target_kv : nullptr),
      target_block_size_(target_block_size), context_length_(context_length), time_(&time),
      num_guesses_(num_guesses), sessions_(drafter),
      foreseen_(drafter, index, sessions_, kv, target_block_size, context_length, num_guesses) {}

bool draft_runner::drafts_for(const plan_item& item) const {
  return item.worker == index_ && !item.restart_at && item.request.log->finish() == finish_reason::none;
}

void draft_runner::run(device::ops& ops, const round_plan& plan, draft_batch& batch) {
  const device::stopwatch since_begin(ops, *time_);
  drop_ended();
  batch.drafter = index_;
  batch.drafts.assign(plan.items.size(), {});
  std::vector<speculation::draft_task> tasks;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    if (!drafts_for(item)) continue;
    const auto& log = item.request.log;
    if (item.drafter_restart) sessions_.reset(item.request.id());
    if (!log->is_computed() || log->beams()) continue;
    const auto limit = worker_limit(item, draft_limit(item, target_block_size_, context_length_));
    if (limit.length == 0) continue;
    auto& drafted_at = sessions_.of(log).drafted_at;
    batch.catching_up |= item.drafter_restart || log->length() > drafted_at + limit.length + 1;
    drafted_at = log->length();
    if (auto ready = foreseen_.take(ops, plan, item, batch)) {
      batch.drafts[i] = *std::move(ready);
      continue;
    }
    tasks.push_back(make_task(item, limit, sessions_.session(log)));
    tasks.back().target_cells = final_cells(item, target_kv_);
    tasks.back().num_alternates = item.ahead == ahead_mode::outcomes ? num_guesses_ : 0;
    owners.push_back(i);
  }
  batch.num_drafted = static_cast<std::uint32_t>(tasks.size());
  try {
    draft_for_beams(ops, plan, batch);
    if (!tasks.empty()) drafter_->propose(ops, kv_, tasks);
  } catch (const std::exception& e) {
    batch.failure = error{errc::internal, "drafter " + drafter_->traits().name + ": " + e.what()};
    tasks.clear(); // drafts that were ready remain
    batch.beams.clear();
    for (const auto& item : plan.items) // the state of the sessions is unknown: they start over
      if (drafts_for(item) && item.request.log->beams()) sessions_.reset(item.request.id());
    for (const auto owner : owners) sessions_.reset(plan.items[owner].request.id());
  }
  for (std::size_t t = 0; t < tasks.size(); ++t) batch.drafts[owners[t]] = std::move(tasks[t].result);
  batch.duration = since_begin.elapsed();
  foreseen_.remember(plan, batch.drafts);
}

void draft_runner::draft_for_beams(device::ops& ops, const round_plan& plan, draft_batch& batch) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    const auto& log = item.request.log;
    if (!drafts_for(item) || !log->is_computed() || !log->beams()) continue;
    const auto open = [&](std::span<const std::vector<token_id>> outputs) {
      if (!drafter_->own_model())
        return sessions_.of(log).hypotheses.follow(outputs, *drafter_, item.request.id());
      return std::vector(outputs.size(), sessions_.session(log));
    };
    auto drafts = draft_below_hypotheses(ops, item, *drafter_, open, kv_, target_block_size_, target_kv_);
    if (drafts.empty()) continue;
    batch.beams.resize(plan.items.size());
    batch.beams[i] = std::move(drafts);
  }
}

} // namespace paceline::rounds
