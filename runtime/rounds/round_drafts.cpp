#include "runtime/device/stopwatch.hpp"
#include "runtime/rounds/draft_tasks.hpp"
#include "runtime/rounds/round_runner.hpp"

#include <algorithm>
#include <exception>
#include <utility>

// Sources of a round's drafts: in-line drafters, workers, and the choice among them.

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

void round_runner::collect_drafts(device::ops& ops, const round_plan& plan,
                                  std::span<const std::shared_ptr<draft_batch>> drafts,
                                  std::vector<batch_part>& parts) {
  std::vector<drafter_index> in_line;
  for (auto& part : parts) {
    const auto index = part.item->drafter;
    if (!may_draft(part, index)) continue;
    const auto* drafter = drafter_at(index);
    if (drafter && !part.item->worker && std::ranges::find(in_line, index) == in_line.end())
      in_line.push_back(index);
    if (!part.item->worker) continue;
    const auto position = static_cast<std::size_t>(part.item - plan.items.data());
    for (const auto& batch : drafts) {
      if (!batch || position >= batch->drafts.size()) continue;
      if (!batch->drafts[position].tree.empty()) {
        part.draft = std::move(batch->drafts[position]);
        drop_disallowed(part.draft, *part.item->request.log, part.item->request.progress->draft_constraint());
      }
      if (position < batch->num_drafter_cells.size())
        part.num_drafter_cells = std::max(part.num_drafter_cells, batch->num_drafter_cells[position]);
    }
  }
  for (auto index : in_line) propose_in_line(ops, index, parts);
  if (controller_) propose_best(ops, parts);
  for (auto& part : parts)
    if (part.beams) propose_below_hypotheses(ops, plan, drafts, part);
  for (auto& part : parts) {
    if (part.draft.num_rows() == 0) continue;
    const auto limit = limit_of(part);
    part.draft.truncate(limit.rows); // further rows have no cells; a truncated tree is still a tree
    const bool stale = part.draft.base_length != part.item->request.log->length();
    const auto vocab_size = resources_.target->info().vocab_size;
    if (!stale && part.draft.tree.size() <= limit.nodes &&
        speculation::validate_draft(part.draft, vocab_size, limit.length, limit.probe_depth,
                                    resources_.num_inputs))
      continue;
    if (part.item->drafter == resources_.automatic) part.item->request.progress->history().forget_verified();
    part.draft = {};
    part.stale = true;
  }
}

/// The drafts of an in-line drafter for `owners`. They are empty while the drafter rests, and if it fails.
std::vector<speculation::draft> round_runner::propose(device::ops& ops, drafter_index index,
                                                      std::span<batch_part* const> owners) {
  auto& drafter = *drafter_at(index);
  std::vector<speculation::draft> drafts(owners.size());
  const auto ask = [&] {
    std::vector<speculation::draft_task> tasks;
    for (const auto* owner : owners) {
      auto& progress = *owner->item->request.progress;
      auto* session = progress.session(index, drafter);
      tasks.push_back(make_task(*owner->item, limit_of(*owner), session, progress.draft_constraint()));
      if (drafter.traits().reads_target())
        tasks.back().target_cells = final_cells(*owner->item, resources_.kv);
    }
    const auto begin = resources_.time->now();
    drafter.propose(ops, nullptr, tasks);
    const time_span drafted{begin, resources_.time->now()};
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      drafts[i] = std::move(tasks[i].result);
      drafts[i].drafted = drafted;
      drop_disallowed(drafts[i], *owners[i]->item->request.log, tasks[i].constraint);
    }
  };
  const auto start_over = [&] {
    for (const auto* owner : owners) owner->item->request.progress->reset_session(index);
  };
  ask_in_line(index, ask, start_over);
  return drafts;
}

/// Calls `propose` of an in-line drafter unless the drafter rests. If it fails, the round continues without
/// its drafts. The state of its sessions is then unknown, so `start_over` resets them.
void round_runner::ask_in_line(drafter_index index, const std::function<void()>& propose,
                               const std::function<void()>& start_over) {
  if (rests_.rests(index)) return;
  try {
    propose();
    rests_.drafted(index);
  } catch (const std::exception& e) {
    start_over();
    const auto& name = drafter_at(index)->traits().name;
    failed_in_line_.push_back({index, error{errc::internal, "drafter " + name + ": " + e.what()}});
    rests_.failed(index, resources_.time->now());
  }
}

void round_runner::propose_in_line(device::ops& ops, drafter_index index, std::vector<batch_part>& parts) {
  const auto owners = drafting(parts, index);
  if (owners.empty()) return;
  auto drafts = propose(ops, index, owners);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->draft = std::move(drafts[i]);
}

/// Drafts for the items of "auto". Every candidate drafts; the controller chooses among the drafts and
/// truncates them.
void round_runner::propose_best(device::ops& ops, std::vector<batch_part>& parts) {
  for (auto& part : parts) {
    const auto& request = part.item->request;
    if (may_draft(part, *resources_.automatic))
      controller_->learn(request.progress->history(), request.log->tokens());
  }
  const auto owners = drafting(parts, *resources_.automatic);
  if (owners.empty()) return;
  std::vector<speculation::draft_controller::request_choice> choices(owners.size());
  for (std::size_t i = 0; i < owners.size(); ++i) {
    choices[i].history = &owners[i]->item->request.progress->history();
    choices[i].proposals.resize(candidates_.size());
    const auto asked = std::ranges::find(candidates_, owners[i]->item->worker);
    auto made = std::exchange(owners[i]->draft, {}); // the draft of the worker that was asked
    if (asked != candidates_.end() && made.base_length == owners[i]->item->request.log->length())
      choices[i].proposals[static_cast<std::size_t>(asked - candidates_.begin())] = std::move(made);
  }
  speculation::pass_load load{.num_requests = 0, .num_rows = 0};
  for (const auto& part : parts) {
    load.num_requests += part.decides ? 1 : 0;
    load.num_rows += part.num_context + part.draft.num_rows();
    if (part.beams && part.num_context == 0) load.num_rows += std::max(part.beams->num_hypotheses(), 1U);
  }
  for (std::uint32_t c = 0; c < num_in_line_; ++c) ask_candidate(ops, c, owners, choices);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const auto limit = limit_of(*owners[i]);
    // A drafter that reports no plan has planned exactly what it was asked for.
    for (auto& proposal : choices[i].proposals)
      if (proposal.plan.levels == 0) proposal.plan = {limit.length, limit.nodes};
  }
  controller_->choose(choices, load);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    auto& owner = *owners[i];
    if (owner.item->request.terms->request().trace) owner.choice_of_auto = told(choices[i]);
    if (choices[i].chosen.num_rows() == 0) continue;
    owner.draft = std::move(choices[i].chosen);
    owner.drafter = candidates_[choices[i].candidate];
  }
}

/// Calls in-line candidate number `candidate` for the requests for which a call pays.
void round_runner::ask_candidate(device::ops& ops, std::uint32_t candidate,
                                 std::span<batch_part* const> owners,
                                 std::span<speculation::draft_controller::request_choice> choices) {
  if (rests_.rests(candidates_[candidate])) return;
  const auto num_requests = static_cast<std::uint32_t>(owners.size());
  std::vector<batch_part*> asking;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < owners.size(); ++i)
    if (controller_->begin_call(*choices[i].history, candidate, num_requests)) {
      asking.push_back(owners[i]);
      places.push_back(i);
    }
  if (asking.empty()) return;
  const device::stopwatch since_begin(ops, *resources_.time);
  auto drafts = propose(ops, candidates_[candidate], asking);
  const bool in_full = !rests_.rests(candidates_[candidate]) && // it has not failed
                       std::ranges::none_of(drafts, &speculation::draft::catching_up);
  if (in_full)
    controller_->observe_proposing(candidate, static_cast<std::uint32_t>(asking.size()),
                                   static_cast<double>(since_begin.elapsed().count()));
  for (std::size_t i = 0; i < drafts.size(); ++i)
    choices[places[i]].proposals[candidate] = std::move(drafts[i]);
}

/// The options among which "auto" chose, for the trace.
draft_choice round_runner::told(const speculation::draft_controller::request_choice& choice) const {
  draft_choice out;
  out.plain_to_measure = choice.plain_to_measure;
  for (const auto& option : choice.options)
    out.options.push_back({drafter_at(candidates_[option.candidate])->traits().name, option.num_nodes,
                           static_cast<float>(option.tokens), static_cast<float>(option.cost)});
  return out;
}

/// Reports which drafter drafted for a request that ends, and with "auto" the account of its choices.
void round_runner::report_drafter(request_progress& progress, speculation_stats& stats) const {
  const auto index = progress.drafter();
  if (const auto* drafter = drafter_at(index)) stats.drafter = drafter->traits().name;
  if (index == plain_decoding || index != resources_.automatic) return;
  stats.drafter = "auto";
  auto account = progress.history().account();
  for (std::size_t c = 0; c < account.candidates.size(); ++c)
    account.candidates[c].drafter = drafter_at(candidates_[c])->traits().name;
  stats.weighed = std::make_shared<const draft_account>(std::move(account));
}

/// Advises the scheduler which worker is to draft next for the requests with "auto".
void round_runner::advise_workers(const round_plan& plan, std::span<const batch_part> parts,
                                  std::span<item_result> results) {
  std::vector<speculation::draft_history*> requests;
  std::vector<item_result*> owners;
  std::uint32_t max_length = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!may_draft(parts[i], *resources_.automatic) || results[i].finish != finish_reason::none) continue;
    requests.push_back(&parts[i].item->request.progress->history());
    owners.push_back(&results[i]);
    max_length = std::max(max_length, parts[i].item->draft_length);
  }
  const auto num_others = static_cast<std::uint32_t>(parts.size() - requests.size());
  std::vector<std::uint32_t> resting;
  for (auto c = num_in_line_; c < candidates_.size(); ++c)
    if (std::ranges::find(plan.resting_workers, candidates_[c]) != plan.resting_workers.end())
      resting.push_back(c);
  const auto wanted = controller_->advise(requests, num_others, max_length, resting);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].length > 0) owners[i]->advice = {candidates_[wanted[i].candidate], wanted[i].length};
}

/// The parts that have drafter `index` and room for a draft.
std::vector<round_runner::batch_part*> round_runner::drafting(std::vector<batch_part>& parts,
                                                              drafter_index index) const {
  std::vector<batch_part*> found;
  for (auto& part : parts)
    if (may_draft(part, index) && limit_of(part).length > 0) found.push_back(&part);
  return found;
}

draft_bounds round_runner::limit_of(const batch_part& part) const {
  return draft_limit(*part.item, resources_.kv->block_size(), resources_.context_length);
}

/// True if the part may have a draft of drafter `index`. A draft needs a context that this pass completes,
/// with one row.
bool round_runner::may_draft(const batch_part& part, drafter_index index) const {
  return part.item->drafter == index && part.decides && part.num_context == 1 && !part.beams;
}

} // namespace paceline::rounds
