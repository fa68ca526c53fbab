#include "runtime/speculation/drafters/path_tree.hpp"

#include "runtime/sampling/pipeline.hpp"

#include <utility>

namespace paceline::speculation {

token_id extend_chain(const draft_task& task, draft_distribution from, draft& result) {
  const auto depth = result.tree.size();
  const token_position position{static_cast<std::uint32_t>(task.tokens.size()) + depth};
  const bool weighed = task.weighs_probs();
  token_id token = from.tokens.front();
  if (weighed)
    token = draw(from, task.sampling->noise(noise_purpose::draft, position, draft_place(depth, 0)));
  else if (!task.sampling->greedy())
    token = draw(from, task.sampling->noise(noise_purpose::target, position));
  result.tree.add(token, static_cast<std::int32_t>(depth) - 1);
  if (weighed) result.probs.push_back(std::move(from));
  return token;
}

} // namespace paceline::speculation
