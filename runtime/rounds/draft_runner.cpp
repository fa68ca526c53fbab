#include "runtime/rounds/draft_runner.hpp"

#include "runtime/device/stopwatch.hpp"
#include "runtime/rounds/beam_drafts.hpp"
#include "runtime/rounds/draft_tasks.hpp"

#include <algorithm>
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
      foreseen_(drafter, index, sessions_, kv, target_block_size, context_length, num_guesses, time) {}

bool draft_runner::drafts_for(const plan_item& item) const {
  return item.worker == index_ && !item.restart_at && item.request.log->finish() == finish_reason::none;
}

/// Makes the item's lease the lease of its session. Returns false if it already was. If the program fails,
/// the next program calls this again, so no session uses cells that were never copied.
bool draft_runner::enter_lease(device::ops& ops, const plan_item& item) {
  auto& lease = sessions_.of(item.request.log).lease;
  if (lease == item.drafter_lease) return false;
  sessions_.reset(item.request.id());
  if (kv_ && !item.drafter_copies.empty()) kv_->copy(ops, item.drafter_copies);
  lease = item.drafter_lease;
  return true;
}

/// Stores the draft for the text of `item`, which has number `index` in the plan. The cells of committed
/// tokens will not change.
void draft_runner::keep_draft(const plan_item& item, std::size_t index, speculation::draft&& made,
                              draft_batch& batch) {
  const auto& log = item.request.log;
  if (!made.catching_up) sessions_.of(log).drafted_at = log->length();
  batch.drafts[index] = std::move(made);
  if (drafter_->traits().text_begin)
    batch.num_drafter_cells[index] = sessions_.session(log)->num_cells().committed;
}

void draft_runner::run(device::ops& ops, const round_plan& plan, draft_batch& batch) {
  const device::stopwatch since_begin(ops, *time_);
  drop_ended();
  batch.drafter = index_;
  batch.drafts.assign(plan.items.size(), {});
  batch.num_drafter_cells.assign(plan.items.size(), 0);
  try {
    draft_for_texts(ops, plan, batch);
    draft_for_beams(ops, plan, batch);
  } catch (const std::exception& e) {
    fail(plan, batch, e.what());
  }
  batch.duration = since_begin.elapsed();
  foreseen_.remember(plan, batch.drafts);
}

/// Keeps the drafts that exist, but reports no cells: a device may have dropped copies that had not begun.
/// All sessions start over and enter their leases again.
void draft_runner::fail(const round_plan& plan, draft_batch& batch, const std::string& why) {
  batch.failure = error{errc::internal, "drafter " + drafter_->traits().name + ": " + why};
  batch.beams.clear();
  batch.num_drafter_cells.assign(plan.items.size(), 0);
  for (const auto& item : plan.items)
    if (drafts_for(item)) sessions_.reset(item.request.id());
}

void draft_runner::draft_for_texts(device::ops& ops, const round_plan& plan, draft_batch& batch) {
  std::vector<speculation::draft_task> tasks;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    if (!drafts_for(item)) continue;
    const auto& log = item.request.log;
    const bool is_new = enter_lease(ops, item);
    if (!log->is_computed() || log->beams()) continue;
    const auto limit = worker_limit(item, draft_limit(item, target_block_size_, context_length_));
    if (limit.length == 0) continue;
    batch.catching_up |= is_new || log->length() > sessions_.of(log).drafted_at + limit.length + 1;
    if (auto ready = foreseen_.take(ops, plan, item, batch)) {
      keep_draft(item, i, *std::move(ready), batch);
      continue;
    }
    tasks.push_back(
        make_task(item, limit, sessions_.session(log), sessions_.constraint(log, log->output_length())));
    tasks.back().target_cells = final_cells(item, target_kv_);
    tasks.back().num_alternates = item.ahead == ahead_mode::outcomes ? num_guesses_ : 0;
    owners.push_back(i);
  }
  batch.num_drafted = static_cast<std::uint32_t>(tasks.size());
  if (tasks.empty()) return;
  const auto begin = time_->now();
  drafter_->propose(ops, kv_, tasks);
  const time_span drafted{begin, time_->now()};
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    tasks[t].result.drafted = drafted;
    keep_draft(plan.items[owners[t]], owners[t], std::move(tasks[t].result), batch);
  }
}

std::vector<speculation::draft> draft_runner::drafts_of_hypotheses(device::ops& ops, const plan_item& item) {
  const auto& log = item.request.log;
  if (drafter_->traits().text_begin)
    return draft_in_own_cells(ops, item, *drafter_, sessions_.of(log).cells, *sessions_.session(log), *kv_,
                              target_block_size_, target_kv_);
  const auto open = [&](std::span<const std::vector<token_id>> outputs) {
    if (!drafter_->own_model())
      return sessions_.of(log).hypotheses.follow(outputs, *drafter_, item.request.id());
    return std::vector(outputs.size(), sessions_.session(log));
  };
  return draft_below_hypotheses(ops, item, *drafter_, open, kv_, target_block_size_, target_kv_);
}

void draft_runner::draft_for_beams(device::ops& ops, const round_plan& plan, draft_batch& batch) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    const auto& log = item.request.log;
    if (!drafts_for(item) || !log->is_computed() || !log->beams()) continue;
    auto drafts = drafts_of_hypotheses(ops, item);
    if (drafts.empty()) continue;
    batch.catching_up |= std::ranges::any_of(drafts, &speculation::draft::catching_up) ||
                         sessions_.of(log).cells.catching_up();
    batch.beams.resize(plan.items.size());
    batch.beams[i] = std::move(drafts);
  }
}

} // namespace paceline::rounds
