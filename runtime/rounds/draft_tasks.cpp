#include "runtime/rounds/draft_tasks.hpp"

#include "runtime/scheduling/committed_log.hpp"

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

std::span<const block_id> text_blocks(const plan_item& item) {
  return std::span(item.drafter_blocks).first(item.drafter_blocks.size() - item.num_spare_blocks);
}

speculation::draft_task lasting_task(const plan_item& item, draft_bounds limit) {
  const auto& terms = *item.request.terms;
  const auto& request = terms.request();
  speculation::draft_task task{};
  task.request = terms.id();
  task.sampling = &terms.pipeline();
  task.prompt_length = terms.prompt_length();
  task.rule = request.speculation.rule;
  task.draft_length = limit.length;
  task.lengths = item.lengths;
  task.max_nodes = limit.nodes;
  task.max_rows = limit.rows;
  task.max_probe_depth = limit.probe_depth;
  task.tenant = request.tenant;
  task.prediction = request.prediction;
  return task;
}

speculation::target_cells final_cells(const plan_item& item, const model::kv_storage* kv) {
  const auto& log = *item.request.log;
  // The round that was to restart the request in these blocks may not have run. Then the log describes other
  // blocks.
  if (!kv || !log.is_computed() || log.admission() != item.admission) return {};
  return {kv, item.blocks, log.length() - 1};
}

speculation::draft_task make_task(const plan_item& item, draft_bounds limit,
                                  speculation::drafter_session* session, constraint_cursor* constraint) {
  const auto& log = *item.request.log;
  auto task = lasting_task(item, limit);
  task.tokens = log.tokens();
  task.counts = &log.counts();
  task.blocks = text_blocks(item);
  task.num_drafter_cells = item.num_drafter_cells;
  task.last_round = log.last_round();
  task.session = session;
  task.constraint = constraint;
  task.result.base_length = log.length();
  return task;
}

void drop_disallowed(speculation::draft& made, const committed_log& log, constraint_cursor* constraint) {
  if (!constraint || made.tree.empty() || !made.probs.empty() || made.base_length != log.length()) return;
  const auto tokens = made.tree.tokens();
  if (made.tree.is_chain() && made.probes.empty()) {
    const auto num_kept = constraint->num_allowed(log.output(), {}, tokens);
    made.truncate(static_cast<std::uint32_t>(num_kept));
    return;
  }
  std::vector<bool> keep(tokens.size());
  for (std::size_t node = 0; node < tokens.size(); ++node) {
    const auto parent = made.tree.parents()[node];
    if (parent != speculation::token_tree::root && !keep[static_cast<std::size_t>(parent)]) continue;
    keep[node] =
        constraint->num_allowed(log.output(), made.tree.path_tokens(parent), tokens.subspan(node, 1)) == 1;
  }
  made = part_of(std::move(made), keep, true);
}

} // namespace paceline::rounds
