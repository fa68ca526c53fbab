#include "runtime/rounds/beam_drafts.hpp"

#include "runtime/rounds/draft_tasks.hpp"
#include "runtime/scheduling/committed_log.hpp"

#include <algorithm>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

draft_bounds limit_below_hypotheses(const plan_item& item, const beam_search& beams,
                                    std::uint32_t block_size) {
  const std::size_t cells = item.blocks.size() * block_size;
  const std::size_t free = cells > beams.num_cells() ? cells - beams.num_cells() : 0;
  const auto nodes =
      std::min<std::size_t>({item.max_nodes, beam_search::max_draft_nodes, free}) / beams.num_hypotheses();
  draft_bounds limit;
  limit.nodes = static_cast<std::uint32_t>(nodes);
  limit.length = std::min({item.draft_length, beams.max_draft_levels(), limit.nodes});
  limit.probe_depth = limit.length;
  if (limit.length == 0) limit.nodes = 0;
  return limit;
}

namespace {

/// A hypothesis in the form that drafters take.
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

} // namespace

std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const plan_item& item,
                                                       speculation::drafter& drafter,
                                                       const open_sessions& open, model::kv_storage* kv,
                                                       std::uint32_t target_block_size,
                                                       const model::kv_storage* target_kv) {
  const auto& log = *item.request.log;
  const auto& beams = *log.beams();
  if (!beams.may_draft()) return {};
  const auto limit = limit_below_hypotheses(item, beams, target_block_size);
  if (limit.length == 0) return {};
  std::vector<std::vector<token_id>> outputs;
  for (std::uint32_t i = 0; i < beams.num_hypotheses(); ++i) outputs.push_back(beams.output_of(i));
  const auto sessions = open(outputs);
  std::vector<hypothesis_text> texts;
  for (const auto& output : outputs) texts.push_back(text_of(log, output));
  std::vector<speculation::draft_task> tasks;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto task = make_task(item, limit, sessions[i]);
    task.tokens = texts[i].tokens;
    task.counts = &texts[i].counts;
    if (drafter.own_model()) task.num_settled = log.terms().prompt_length(); // others have a session each
    task.target_cells = final_cells(item, target_kv);
    if (task.target_cells.kv != nullptr)
      task.target_cells.scattered = beams.slots_of(static_cast<std::uint32_t>(i));
    task.last_round = nullptr;
    task.result.base_length = static_cast<std::uint32_t>(texts[i].tokens.size());
    tasks.push_back(std::move(task));
  }
  // A drafter with cells of its own has one lease per request, which its hypotheses use in turn.
  if (drafter.own_model())
    for (auto& task : tasks) drafter.propose(ops, kv, {&task, 1});
  else
    drafter.propose(ops, kv, tasks);
  std::vector<speculation::draft> drafts;
  for (auto& task : tasks) {
    task.result.probes = {};
    drafts.push_back(std::move(task.result));
    drafts.back().truncate(limit.nodes); // there are no cells for the rest
  }
  return drafts;
}

} // namespace paceline::rounds
