#include "runtime/speculation/drafters/chained_draft.hpp"

#include <algorithm>

namespace paceline::speculation {

bool chained_draft::add(draft_lane& lane, std::size_t vocab_size) {
  const draft_task& task = *lane.task;
  const bool tokens_suffice =
      (lane.choice == token_choice::own_sample || lane.choice == token_choice::likeliest) &&
      task.num_alternates == 0 && task.lengths != length_rule::entropy;
  const std::size_t num_missing = lane.context.size() - lane.session->cached().size();
  if (!tokens_suffice || num_missing > most_given) return false;
  member one{.lane = &lane, .counts = {}, .settings = {}, .num_given = num_missing};
  const auto settings = task.sampling->settings_for_device(row_below(task, {}), vocab_size, one.counts);
  if (!settings) return false;
  one.settings = *settings;
  if (lane.choice == token_choice::likeliest) one.settings.temperature = 0;
  members_.push_back(std::move(one));
  return true;
}

/// The input of a step for `of`: tokens of the context, then the chosen tokens. If the lane's draft is
/// complete and longer drafts continue, it is the context's newest token again, whose cell is overwritten
/// with the same values.
device::chain_row chained_draft::row_at(const member& of, std::uint32_t sequence, std::size_t step,
                                        std::size_t vocab_size) {
  const std::span<const token_id> context = of.lane->context;
  const std::size_t first = context.size() - of.num_given, newest = of.num_given - 1;
  const std::size_t end = newest + of.lane->bounds.depth;
  const std::size_t at = step < end ? step : newest;
  device::chain_row row;
  row.entry.position = token_position{static_cast<std::uint32_t>(first + at)};
  row.entry.slot = kv_slot{row.entry.position.value};
  row.entry.sequence = sequence;
  row.entry.token = token_id{-1};
  if (at <= newest) { // as in a pass, a token that is not in the vocabulary is replaced by token 0
    const token_id token = context[first + at];
    row.entry.token = static_cast<std::uint32_t>(token.value) < vocab_size ? token : token_id{0};
  }
  if (step >= newest && step < end) row.level = static_cast<std::int32_t>(step - newest);
  return row;
}

/// Sets the lane to the state after passes with the chosen tokens. All of them except the last have been fed.
void chained_draft::take(const member& of, std::span<const device::chain_choice> chosen) {
  draft_lane& lane = *of.lane;
  for (const token_id token : lane.context.last(of.num_given)) lane.session->feed(token);
  std::int32_t parent = token_tree::root;
  for (std::uint32_t level = 0; level < lane.bounds.depth && !chosen[level].hopeless; ++level) {
    const sampling::ranked_token token{chosen[level].token, 1.0F};
    lane.candidates.add_children(parent, {&token, 1});
    const bool is_fed = level + 1 < lane.bounds.depth;
    lane.branches.push_back(is_fed ? lane.session->feed_branch(token.token, parent) : draft_lane::not_fed);
    ++parent;
  }
  lane.is_drafted = true;
}

bool chained_draft::run(device::ops& ops, const model::language_model& model, model::kv_storage& kv) {
  std::size_t num_steps = 0, num_levels = 0;
  std::vector<device::sequence_kv> sequences;
  std::vector<device::token_choice> requests;
  for (const member& one : members_) {
    num_steps = std::max<std::size_t>(num_steps, one.num_given - 1 + one.lane->bounds.depth);
    num_levels = std::max<std::size_t>(num_levels, one.lane->bounds.depth);
    sequences.push_back({.blocks = one.lane->task->blocks});
    requests.push_back(one.settings);
    requests.back().first_row = static_cast<std::uint32_t>(requests.size() - 1);
    requests.back().counts = one.counts;
  }
  std::vector<device::chain_row> rows;
  for (std::size_t step = 0; step < num_steps; ++step)
    for (std::size_t m = 0; m < members_.size(); ++m)
      rows.push_back(row_at(members_[m], static_cast<std::uint32_t>(m), step, model.info().vocab_size));
  std::vector<device::chain_choice> out(members_.size() * num_levels);
  const device::chain_args chain{.num_rows = static_cast<std::uint32_t>(members_.size()),
                                 .rows = rows,
                                 .sequences = sequences,
                                 .requests = requests,
                                 .num_levels = static_cast<std::uint32_t>(num_levels),
                                 .out = out};
  try {
    if (!model.run_chain(ops, chain, kv)) return false;
  } catch (...) {
    // It is unknown which cells were written.
    for (const member& one : members_) one.lane->session->forget_all();
    throw;
  }
  for (std::size_t m = 0; m < members_.size(); ++m)
    take(members_[m], std::span(out).subspan(m * num_levels, num_levels));
  return true;
}

} // namespace paceline::speculation
