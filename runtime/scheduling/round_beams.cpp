#include "runtime/scheduling/draft_runner.hpp"
#include "runtime/scheduling/draft_tasks.hpp"
#include "runtime/scheduling/round_runner.hpp"

#include <algorithm>

// What a round does for a beam search: drafts below its hypotheses, their rows,
// its steps.

namespace paceline::scheduling {

namespace {

/// For each hypothesis. Levels are positions, nodes only cells.
draft_bounds limit_below_hypothesis(const plan_item& item, const beam_search& beams,
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

/// A hypothesis as a drafter sees it.
struct hypothesis_text {
  std::vector<token_id> tokens;
  sampling::token_counts counts;
};

hypothesis_text text_of(const sequence& target, const beam_search& beams, std::uint32_t i) {
  hypothesis_text text{{target.tokens().begin(), target.tokens().end()}, target.counts()};
  for (const auto token : beams.output_of(i)) {
    text.tokens.push_back(token);
    text.counts.add_output(token);
  }
  return text;
}

} // namespace

std::vector<speculation::draft> draft_below_hypotheses(device::ops& ops, const plan_item& item,
                                                       std::uint32_t index, speculation::drafter& drafter,
                                                       model::kv_storage* kv,
                                                       std::uint32_t target_block_size) {
  auto& target = *item.target;
  auto& beams = *target.beams();
  if (!beams.may_draft()) return {};
  const auto limit = limit_below_hypothesis(item, beams, target_block_size);
  if (limit.length == 0) return {};
  const auto num = beams.num_hypotheses();
  std::vector<hypothesis_text> texts;
  for (std::uint32_t i = 0; i < num; ++i) texts.push_back(text_of(target, beams, i));
  std::vector<speculation::draft_task> tasks;
  for (std::uint32_t i = 0; i < num; ++i) {
    auto task = make_task(item, index, drafter, limit);
    task.tokens = texts[i].tokens;
    task.counts = &texts[i].counts;
    task.num_settled = target.prompt_length();
    task.features = {};
    task.last_round = nullptr;
    // A drafter with cells of its own has one lease a request: its hypotheses
    // take turns in it.
    if (!drafter.own_model()) task.session = beams.session(i, index, drafter, target.id());
    task.result.base_length = static_cast<std::uint32_t>(texts[i].tokens.size());
    tasks.push_back(std::move(task));
  }
  if (drafter.own_model())
    for (auto& task : tasks) drafter.propose(ops, kv, {&task, 1});
  else
    drafter.propose(ops, kv, tasks);
  std::vector<speculation::draft> drafts;
  for (auto& task : tasks) {
    drafts.push_back(task.result.without_probes());
    drafts.back().truncate(limit.nodes); // no cells for the rest
  }
  return drafts;
}

void round_runner::propose_below_hypotheses(device::ops& ops, const round_plan& plan,
                                            std::span<const std::shared_ptr<draft_batch>> drafts,
                                            lane& lane) {
  const auto& item = *lane.item;
  auto* drafter = resources_.drafters.at(item.drafter);
  if (!drafter || !lane.beams->may_draft()) return;
  std::vector<speculation::draft> proposed;
  const auto where = drafter->traits().where;
  if (where == speculation::placement::in_line || where == speculation::placement::in_pass) {
    proposed =
        draft_below_hypotheses(ops, item, item.drafter, *drafter, nullptr, resources_.kv->block_size());
  } else {
    const auto position = static_cast<std::size_t>(lane.item - plan.items.data());
    for (const auto& batch : drafts)
      if (batch && position < batch->beams.size() && !batch->beams[position].empty())
        proposed = std::move(batch->beams[position]);
  }
  const auto limit = limit_below_hypothesis(item, *lane.beams, resources_.kv->block_size());
  const auto vocab_size = resources_.target->info().vocab_size;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(proposed.size(), lane.beams->num_hypotheses()); ++i) {
    const auto length = item.target->length() + lane.beams->output_of(i).size();
    if (proposed[i].tree.empty()) continue;
    if (proposed[i].base_length == length && proposed[i].tree.size() <= limit.nodes &&
        speculation::validate_draft(proposed[i], vocab_size, limit.length))
      lane.beams->add_draft(i, proposed[i].tree);
    else
      lane.stale = true;
  }
}

void round_runner::add_beam_rows(lane& lane, std::uint32_t sequence) {
  if (lane.num_context > 0) return; // the prompt's rows come first
  auto& beams = *lane.beams;
  for (const auto& [node, decides] :
       beams.plan_rows(static_cast<std::uint32_t>(lane.item->blocks.size() * resources_.kv->block_size()))) {
    device::batch_entry row{
        beams.token_of(node), beams.position_of(node), beams.slot_of(node), sequence, 0, 0};
    row.path_begin = static_cast<std::uint32_t>(paths_.size());
    beams.append_path(node, paths_);
    row.path_length = static_cast<std::uint32_t>(paths_.size()) - row.path_begin;
    if (decides) logit_rows_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.push_back(row);
  }
}

void round_runner::decide_beams(const lane& lane, item_result& done) {
  auto& sequence = *lane.item->target;
  auto& beams = *lane.beams;
  const std::vector rows(beams.planned_rows().begin(), beams.planned_rows().end());
  done.num_rows = lane.num_context + static_cast<std::uint32_t>(rows.size());
  const bool prompt_decides = lane.decides && lane.num_context > 0;
  if (prompt_decides) beams.set_prompt_computed();
  const auto row_of = [&](std::uint32_t node) {
    std::uint32_t index = lane.first_logits;
    for (const auto& row : rows) {
      if (row.node == node) break;
      index += row.decides ? 1 : 0;
    }
    return logits_row(index);
  };
  const auto progress = beams.advance(sequence.context_of_beams(), row_of);
  done.num_draft = progress.num_draft;
  done.num_accepted = progress.num_accepted;
  sequence.count_verification(progress.num_draft, progress.num_accepted);
  done.num_cells = beams.num_cells();
  if (beams.finished()) sequence.commit_best_hypothesis();
}

} // namespace paceline::scheduling
