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
    for (const auto& batch : drafts)
      if (batch && position < batch->drafts.size() && !batch->drafts[position].tree.empty())
        part.draft = std::move(batch->drafts[position]);
  }
  for (auto index : in_line) propose_in_line(ops, index, parts);
  if (controller_) propose_best(ops, parts);
  for (auto& part : parts)
    if (part.beams) propose_below_hypotheses(ops, plan, drafts, part);
  for (auto& part : parts) {
    if (part.draft.tree.empty()) continue;
    const auto limit = limit_of(part);
    part.draft.truncate(limit.rows); // there are no cells for the rest; a truncated tree is a tree
    const bool stale = part.draft.base_length != part.item->request.log->length();
    const auto vocab_size = resources_.target->info().vocab_size;
    if (!stale && speculation::validate_draft(part.draft, vocab_size, limit.length, limit.probe_depth))
      continue;
    part.draft = {};
    part.stale = true;
  }
}

/// What an in-line drafter says for `owners`: nothing while it rests, and nothing where it fails, for then
/// its sessions are in no known state and start over.
std::vector<speculation::draft> round_runner::propose(device::ops& ops, drafter_index index,
                                                      std::span<batch_part* const> owners) {
  auto& drafter = *drafter_at(index);
  if (rests_.rests(index)) return std::vector<speculation::draft>(owners.size());
  std::vector<speculation::draft_task> tasks;
  for (const auto* owner : owners) {
    auto* session = owner->item->request.progress->session(index, drafter);
    tasks.push_back(make_task(*owner->item, limit_of(*owner), session));
  }
  try {
    drafter.propose(ops, nullptr, tasks);
  } catch (const std::exception& e) {
    for (const auto* owner : owners) owner->item->request.progress->reset_session(index);
    note_failure(index, e);
    return std::vector<speculation::draft>(owners.size());
  }
  rests_.drafted(index);
  std::vector<speculation::draft> drafts;
  for (auto& task : tasks) drafts.push_back(std::move(task.result));
  return drafts;
}

/// An in-line drafter threw: the round goes on without its drafts.
void round_runner::note_failure(drafter_index index, const std::exception& why) {
  const auto& name = drafter_at(index)->traits().name;
  failed_in_line_.push_back({index, error{errc::internal, "drafter " + name + ": " + why.what()}});
  rests_.failed(index, resources_.time->now());
}

void round_runner::propose_in_line(device::ops& ops, drafter_index index, std::vector<batch_part>& parts) {
  const auto owners = drafting(parts, index);
  if (owners.empty()) return;
  auto drafts = propose(ops, index, owners);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->draft = std::move(drafts[i]);
}

/// The items of "auto": every candidate drafts; the controller chooses among the drafts and truncates them.
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
    auto made = std::exchange(owners[i]->draft, {}); // from the worker that was asked
    if (asked != candidates_.end() && made.base_length == owners[i]->item->request.log->length())
      choices[i].proposals[static_cast<std::size_t>(asked - candidates_.begin())] = std::move(made);
  }
  speculation::pass_load load{.num_requests = 0, .num_rows = 0};
  for (const auto& part : parts) {
    load.num_requests += part.decides ? 1 : 0;
    load.num_rows += part.num_context + part.draft.num_rows();
  }
  for (std::uint32_t c = 0; c < num_in_line_; ++c) {
    auto drafts = propose(ops, candidates_[c], owners);
    for (std::size_t i = 0; i < owners.size(); ++i) choices[i].proposals[c] = std::move(drafts[i]);
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const auto limit = limit_of(*owners[i]);
    // A drafter that reports no plan planned what it was asked for.
    for (auto& proposal : choices[i].proposals)
      if (proposal.plan.levels == 0) proposal.plan = {limit.length, limit.nodes};
  }
  controller_->choose(choices, load);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (choices[i].chosen.tree.empty()) continue;
    owners[i]->draft = std::move(choices[i].chosen);
    owners[i]->drafter = candidates_[choices[i].candidate];
  }
}

/// The drafters that the requests with "auto" want to ask.
void round_runner::advise_workers(std::span<const batch_part> parts, std::span<item_result> results) {
  std::vector<const speculation::draft_history*> requests;
  std::vector<item_result*> owners;
  std::uint32_t max_length = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!may_draft(parts[i], *resources_.automatic) || results[i].finish != finish_reason::none) continue;
    requests.push_back(&parts[i].item->request.progress->history());
    owners.push_back(&results[i]);
    max_length = std::max(max_length, parts[i].item->draft_length);
  }
  const auto num_others = static_cast<std::uint32_t>(parts.size() - requests.size());
  const auto wanted = controller_->advise(requests, num_others, max_length);
  for (std::size_t i = 0; i < wanted.lengths.size(); ++i)
    if (wanted.lengths[i] > 0) owners[i]->advice = {candidates_[wanted.candidate], wanted.lengths[i]};
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

/// Drafts of drafter `index` continue, one token at a time, a context that this pass completes.
bool round_runner::may_draft(const batch_part& part, drafter_index index) const {
  return part.item->drafter == index && part.decides && part.num_context == 1 && !part.beams;
}

} // namespace paceline::rounds
