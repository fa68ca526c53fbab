#include "runtime/rounds/beam_drafts.hpp"

#include "runtime/rounds/draft_tasks.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/state_slot_shares.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <algorithm>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

draft_bounds limit_below_hypotheses(const plan_item& item, const beam_search& beams,
                                    std::uint32_t block_size) {
  const std::size_t cells = item.blocks.size() * block_size;
  const std::size_t free = cells > beams.num_cells() ? cells - beams.num_cells() : 0;
  // Apart from drafts, each hypothesis has a state before the round and one after it, and the prompt has one.
  const std::size_t held = least_row_states(beams.num_hypotheses());
  const std::size_t states = item.states ? std::max<std::size_t>(item.num_row_states, held) - held : free;
  const auto nodes = std::min<std::size_t>({item.max_nodes, beam_search::max_draft_nodes, free, states}) /
                     beams.num_hypotheses();
  draft_bounds limit;
  limit.nodes = static_cast<std::uint32_t>(nodes);
  limit.length = std::min({item.draft_length, beams.max_draft_levels(), limit.nodes});
  limit.probe_depth = limit.length;
  if (limit.length == 0) limit.nodes = 0;
  return limit;
}

namespace {

/// The text of a hypothesis in the form that drafters take.
struct hypothesis_text {
  std::vector<token_id> tokens;
  sampling::token_counts counts;
};

hypothesis_text text_of(const committed_log& log, std::span<const token_id> output) {
  hypothesis_text text{{log.tokens().begin(), log.tokens().end()}, log.counts()};
  for (const auto token : output) {
    text.tokens.push_back(token);
    text.counts.add_output(token);
  }
  return text;
}

/// The hypotheses of a search that get drafts.
struct drafted_hypotheses {
  const plan_item& item;
  draft_bounds limit; ///< length 0: no drafts
  const model::kv_storage* target_kv;
  std::vector<std::vector<token_id>> outputs = {};
  std::vector<hypothesis_text> texts = {};

  drafted_hypotheses(const plan_item& of, std::uint32_t target_block_size, const model::kv_storage* target)
      : item(of), target_kv(target) {
    const auto& beams = *item.request.log->beams();
    if (beams.may_draft()) limit = limit_below_hypotheses(item, beams, target_block_size);
    if (limit.length == 0) return;
    for (std::uint32_t i = 0; i < beams.num_hypotheses(); ++i) {
      outputs.push_back(beams.output_of(i));
      texts.push_back(text_of(*item.request.log, outputs.back()));
    }
  }

  speculation::draft_task task(std::size_t i, speculation::drafter_session* session) const {
    auto made = make_task(item, limit, session, nullptr); // a beam search has no constraint
    made.tokens = texts[i].tokens;
    made.counts = &texts[i].counts;
    made.target_cells = final_cells(item, target_kv);
    if (made.target_cells.kv != nullptr)
      made.target_cells.scattered = item.request.log->beams()->slots_of(static_cast<std::uint32_t>(i));
    made.last_round = nullptr;
    made.beam_width = item.request.terms->request().beams.width;
    made.result.base_length = static_cast<std::uint32_t>(texts[i].tokens.size());
    return made;
  }
  speculation::draft taken(speculation::draft_task& task) const {
    task.result.probes = {};
    task.result.truncate(limit.nodes); // further nodes have no cells
    return std::move(task.result);
  }
};

} // namespace

std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const plan_item& item,
                                                       speculation::drafter& drafter,
                                                       const open_sessions& open, model::kv_storage* kv,
                                                       std::uint32_t target_block_size,
                                                       const model::kv_storage* target_kv) {
  const drafted_hypotheses all(item, target_block_size, target_kv);
  if (all.limit.length == 0) return {};
  const auto sessions = open(all.outputs);
  std::vector<speculation::draft_task> tasks;
  for (std::size_t i = 0; i < all.texts.size(); ++i) {
    tasks.push_back(all.task(i, sessions[i]));
    if (drafter.own_model()) // other drafters have a session for each hypothesis
      tasks.back().num_settled = item.request.terms->prompt_length();
  }
  // A drafter with its own model has one lease and one session, which the hypotheses use in turn.
  if (drafter.own_model())
    for (auto& task : tasks) drafter.propose(ops, kv, {&task, 1});
  else
    drafter.propose(ops, kv, tasks);
  std::vector<speculation::draft> drafts;
  for (auto& task : tasks) drafts.push_back(all.taken(task));
  return drafts;
}

std::vector<speculation::draft> draft_in_own_cells(device::ops& ops, const plan_item& item,
                                                   speculation::drafter& drafter, hypothesis_cells& cells,
                                                   const speculation::drafter_session& empty,
                                                   model::kv_storage& kv, std::uint32_t target_block_size,
                                                   const model::kv_storage* target_kv) {
  const drafted_hypotheses all(item, target_block_size, target_kv);
  if (all.limit.length == 0) return {};
  const auto prompt_length = item.request.terms->prompt_length();
  const auto width = item.request.terms->request().beams.width;
  const auto num_draft_cells = drafter.traits().widens_for_beams
                                   ? speculation::most_expanded(speculation::widened(width), all.limit.length)
                                   : drafter.own_positions(all.limit.length);
  cells.begin_round(all.outputs, {.lease = text_blocks(item),
                                  .block_size = kv.block_size(),
                                  .num_prompt_cells = prompt_length - drafter.traits().text_begin.value(),
                                  .num_draft_cells = num_draft_cells,
                                  .num_read_twice = all.limit.length + 1});
  std::vector<speculation::draft> drafts(all.texts.size());
  for (;;) {
    const auto opened = cells.open_next(ops, kv, empty);
    if (opened.empty()) return drafts;
    std::vector<speculation::draft_task> tasks;
    for (const auto i : opened) {
      tasks.push_back(all.task(i, cells.session(i)));
      tasks.back().num_settled = prompt_length;
      tasks.back().blocks = cells.blocks(i);
      if (!cells.begins_lease(i)) tasks.back().num_drafter_cells = 0;
    }
    drafter.propose(ops, &kv, tasks);
    for (std::size_t t = 0; t < opened.size(); ++t) drafts[opened[t]] = all.taken(tasks[t]);
  }
}

} // namespace paceline::rounds
