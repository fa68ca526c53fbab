#include "runtime/rounds/beam_drafts.hpp"
#include "runtime/rounds/round_runner.hpp"

#include <algorithm>

// The parts of a round for a beam search: its drafts, its rows, its steps.

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

void round_runner::propose_below_hypotheses(device::ops& ops, const round_plan& plan,
                                            std::span<const std::shared_ptr<draft_batch>> drafts,
                                            batch_part& part) {
  const auto& item = *part.item;
  auto* drafter = drafter_at(item.drafter);
  if (!drafter || !part.beams->may_draft()) return;
  std::vector<speculation::draft> proposed;
  const auto limit = limit_below_hypotheses(item, *part.beams, resources_.kv->block_size());
  if (limit.length == 0) return; // no drafter is called, so this result says nothing about a drafter's health
  const auto where = drafter->traits().where;
  if (where == speculation::placement::in_line || where == speculation::placement::in_pass) {
    const auto open = [&](std::span<const std::vector<token_id>> outputs) {
      // The request's own session follows no hypothesis. At the end it gets the best one.
      item.request.progress->session(item.drafter, *drafter);
      return item.request.progress->sessions_of_hypotheses().follow(outputs, *drafter, item.request.id());
    };
    const auto ask = [&] {
      proposed = draft_below_hypotheses(ops, item, *drafter, open, nullptr, resources_.kv->block_size(),
                                        drafter->traits().reads_target() ? resources_.kv : nullptr);
    };
    ask_in_line(item.drafter, ask, [&] { item.request.progress->sessions_of_hypotheses() = {}; });
  } else {
    const auto position = static_cast<std::size_t>(part.item - plan.items.data());
    for (const auto& batch : drafts)
      if (batch && position < batch->beams.size() && !batch->beams[position].empty())
        proposed = std::move(batch->beams[position]);
  }
  const auto vocab_size = resources_.target->info().vocab_size;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(proposed.size(), part.beams->num_hypotheses()); ++i) {
    const auto length = item.request.log->length() + part.beams->output_of(i).size();
    if (proposed[i].tree.empty()) continue;
    if (proposed[i].base_length == length && proposed[i].tree.size() <= limit.nodes &&
        speculation::validate_draft(proposed[i], vocab_size, limit.length))
      part.beams->add_draft(i, proposed[i].tree);
    else
      part.stale = true;
  }
}

void round_runner::add_beam_rows(batch_part& part, std::uint32_t sequence) {
  if (part.num_context > 0) return; // the rows of the prompt are computed first
  auto& beams = *part.beams;
  const auto num_slots = static_cast<std::uint32_t>(part.item->blocks.size() * resources_.kv->block_size());
  const auto most = has_states() ? part.item->request.progress->states().num_free() : beam_search::max_rows;
  const auto planned = beams.plan_rows(num_slots, std::min(most, beam_search::max_rows));
  if (has_states()) add_beam_states(part, planned);
  for (const auto& [node, decides] : planned) {
    device::batch_entry row{
        beams.token_of(node), beams.position_of(node), beams.slot_of(node), sequence, 0, 0};
    row.path_begin = static_cast<std::uint32_t>(paths_.size());
    beams.append_path(node, paths_);
    row.path_length = static_cast<std::uint32_t>(paths_.size()) - row.path_begin;
    if (decides) logit_rows_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.push_back(row);
  }
}

void round_runner::decide_beams(const batch_part& part, item_result& done) {
  auto& progress = *part.item->request.progress;
  auto& beams = *part.beams;
  const std::vector rows(beams.planned_rows().begin(), beams.planned_rows().end());
  done.num_rows = part.num_context + static_cast<std::uint32_t>(rows.size());
  const bool prompt_decides = part.decides && part.num_context > 0;
  if (prompt_decides) beams.set_prompt_computed();
  const auto row_of = [&](std::uint32_t node) {
    std::uint32_t index = part.first_logits;
    for (const auto& row : rows) {
      if (row.node == node) break;
      index += row.decides ? 1 : 0;
    }
    return logits_row(index);
  };
  const auto steps = beams.advance(progress.context_of_beams(), row_of);
  done.num_draft = done.num_levels =
      steps.num_draft; // of all hypotheses together: length rules count them as one chain
  done.num_accepted = steps.num_accepted;
  progress.count_verification(steps.num_draft, steps.num_accepted);
  done.num_cells = beams.num_cells();
  if (beams.finished()) progress.commit_best_hypothesis();
}

} // namespace paceline::rounds
