#include "runtime/rounds/draft_tasks.hpp"
#include "runtime/rounds/round_runner.hpp"

#include <algorithm>
#include <exception>
#include <utility>

// Where a round's drafts come from: in-line drafters, workers, and the choice among them.

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

void round_runner::collect_drafts(device::ops& ops, const round_plan& plan,
                                  std::span<const std::shared_ptr<draft_batch>> drafts,
                                  std::vector<lane>& lanes) {
  std::vector<std::uint32_t> in_line;
  for (auto& lane : lanes) {
    const auto index = lane.item->drafter;
    if (!may_draft(lane, index)) continue;
    const auto* drafter = resources_.drafters.at(index);
    if (drafter && lane.item->worker == 0 && std::ranges::find(in_line, index) == in_line.end())
      in_line.push_back(index);
    if (lane.item->worker == 0) continue;
    const auto position = static_cast<std::size_t>(lane.item - plan.items.data());
    for (const auto& batch : drafts)
      if (batch && position < batch->drafts.size() && !batch->drafts[position].tree.empty())
        lane.draft = std::move(batch->drafts[position]);
  }
  for (auto index : in_line) propose_in_line(ops, index, lanes);
  if (controller_) propose_best(ops, lanes);
  for (auto& lane : lanes)
    if (lane.beams) propose_below_hypotheses(ops, plan, drafts, lane);
  for (auto& lane : lanes) {
    if (lane.draft.tree.empty()) continue;
    const auto limit = limit_of(lane);
    lane.draft.truncate(limit.nodes); // no cells for the rest; what is left is a tree
    const bool stale = lane.draft.base_length != lane.item->request.log->length();
    const auto vocab_size = resources_.target->info().vocab_size;
    if (!stale && speculation::validate_draft(lane.draft, vocab_size, limit.length, limit.probe_depth))
      continue;
    lane.draft = {};
    lane.stale = true;
  }
}

/// What an in-line drafter says for `owners`: nothing while it rests, and nothing where it fails, for then
/// its sessions are in no known state and start over.
std::vector<speculation::draft> round_runner::propose(device::ops& ops, std::uint32_t index,
                                                      std::span<lane* const> owners) {
  auto& drafter = *resources_.drafters[index];
  if (rests_.rests(drafter_index{index})) return std::vector<speculation::draft>(owners.size());
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
  rests_.drafted(drafter_index{index});
  std::vector<speculation::draft> drafts;
  for (auto& task : tasks) drafts.push_back(std::move(task.result));
  return drafts;
}

/// An in-line drafter threw: the round goes on without its drafts.
void round_runner::note_failure(std::uint32_t index, const std::exception& why) {
  const auto& name = resources_.drafters[index]->traits().name;
  failed_in_line_.push_back({index, error{errc::internal, "drafter " + name + ": " + why.what()}});
  rests_.failed(drafter_index{index}, resources_.time->now());
}

void round_runner::propose_in_line(device::ops& ops, std::uint32_t index, std::vector<lane>& lanes) {
  const auto owners = drafting(lanes, index);
  if (owners.empty()) return;
  auto drafts = propose(ops, index, owners);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->draft = std::move(drafts[i]);
}

/// The items of "auto": every candidate drafts, the controller chooses and cuts.
void round_runner::propose_best(device::ops& ops, std::vector<lane>& lanes) {
  for (auto& lane : lanes) {
    const auto& request = lane.item->request;
    if (may_draft(lane, resources_.automatic))
      controller_->learn(request.progress->history(), request.log->tokens());
  }
  const auto owners = drafting(lanes, resources_.automatic);
  if (owners.empty()) return;
  std::vector<speculation::draft_controller::lane> choices(owners.size());
  for (std::size_t i = 0; i < owners.size(); ++i) {
    choices[i].history = &owners[i]->item->request.progress->history();
    choices[i].proposals.resize(candidates_.size());
    const auto asked = std::ranges::find(candidates_, owners[i]->item->worker);
    auto made = std::exchange(owners[i]->draft, {}); // of the worker that was asked
    if (asked != candidates_.end() && made.base_length == owners[i]->item->request.log->length())
      choices[i].proposals[static_cast<std::size_t>(asked - candidates_.begin())] = std::move(made);
  }
  speculation::pass_load load{.num_requests = 0, .num_rows = 0};
  for (const auto& lane : lanes) {
    load.num_requests += lane.decides ? 1 : 0;
    load.num_rows += lane.num_context + lane.draft.tree.size();
  }
  for (std::uint32_t c = 0; c < num_in_line_; ++c) {
    auto drafts = propose(ops, candidates_[c], owners);
    for (std::size_t i = 0; i < owners.size(); ++i) choices[i].proposals[c] = std::move(drafts[i]);
  }
  controller_->choose(choices, load);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (choices[i].chosen.tree.empty()) continue;
    owners[i]->draft = std::move(choices[i].chosen);
    owners[i]->drafter = candidates_[choices[i].candidate];
  }
}

/// Whom the requests with "auto" want to be drafted for by.
void round_runner::wish_for_workers(std::span<const lane> lanes, std::span<item_result> results) {
  std::vector<const speculation::draft_history*> requests;
  std::vector<item_result*> owners;
  std::uint32_t max_length = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!may_draft(lanes[i], resources_.automatic) || results[i].finish != finish_reason::none) continue;
    requests.push_back(&lanes[i].item->request.progress->history());
    owners.push_back(&results[i]);
    max_length = std::max(max_length, lanes[i].item->draft_length);
  }
  const auto num_others = static_cast<std::uint32_t>(lanes.size() - requests.size());
  const auto wanted = controller_->advise(requests, num_others, max_length);
  for (std::size_t i = 0; i < wanted.lengths.size(); ++i)
    if (wanted.lengths[i] > 0) owners[i]->wish = {candidates_[wanted.candidate], wanted.lengths[i]};
}

/// The lanes that drafter number `index` is to draft for and that have room for a draft.
std::vector<round_runner::lane*> round_runner::drafting(std::vector<lane>& lanes, std::uint32_t index) const {
  std::vector<lane*> found;
  for (auto& lane : lanes)
    if (may_draft(lane, index) && limit_of(lane).length > 0) found.push_back(&lane);
  return found;
}

draft_bounds round_runner::limit_of(const lane& lane) const {
  return draft_limit(*lane.item, resources_.kv->block_size(), resources_.context_length);
}

/// Drafts of drafter number `index` continue a context that this pass completes, a token at a time.
bool round_runner::may_draft(const lane& lane, std::uint32_t index) const {
  return lane.item->drafter == index && lane.decides && lane.num_context == 1 && !lane.beams;
}

} // namespace paceline::rounds
