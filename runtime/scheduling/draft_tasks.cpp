#include "runtime/scheduling/draft_tasks.hpp"

namespace paceline::scheduling {

std::span<const block_id> text_blocks(const plan_item& item) {
  return std::span(item.drafter_blocks).first(item.drafter_blocks.size() - item.num_spare_blocks);
}

speculation::draft_task lasting_task(const plan_item& item, draft_bounds limit) {
  const auto& request = item.target->request();
  speculation::draft_task task{};
  task.request = item.target->id();
  task.sampling = &item.target->pipeline();
  task.prompt_length = item.target->prompt_length();
  task.rule = request.speculation.rule;
  task.draft_length = limit.length;
  task.lengths = item.lengths;
  task.max_nodes = limit.nodes;
  task.max_probe_depth = limit.probe_depth;
  task.tenant = request.tenant;
  task.prediction = request.prediction;
  return task;
}

speculation::draft_task make_task(const plan_item& item, std::uint32_t index, speculation::drafter& drafter,
                                  draft_bounds limit) {
  auto& sequence = *item.target;
  auto task = lasting_task(item, limit);
  task.tokens = sequence.tokens();
  task.counts = &sequence.counts();
  task.blocks = text_blocks(item);
  task.features = sequence.features;
  task.last_round = sequence.last_round ? &*sequence.last_round : nullptr;
  task.session = sequence.session(index, drafter);
  task.result.base_length = sequence.length();
  return task;
}

} // namespace paceline::scheduling
