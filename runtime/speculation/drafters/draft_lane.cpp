#include "runtime/speculation/drafters/draft_lane.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/row_kernels.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace paceline::speculation {

sampling::row_context row_below(const draft_task& task, std::span<const token_id> path) {
  const auto depth = static_cast<std::uint32_t>(path.size());
  const auto committed = static_cast<std::uint32_t>(task.tokens.size());
  return {.committed = task.counts,
          .draft_path = path,
          .position = token_position{committed + depth},
          .output_index = committed - task.prompt_length + depth,
          .constraint = task.constraint,
          .output = task.output()};
}

namespace {

void add_children(draft_lane& lane, const tree_shape& shape, std::int32_t parent,
                  std::span<const sampling::ranked_token> children) {
  speculation::add_children(shape, lane.candidates, parent, children);
  lane.branches.resize(lane.candidates.size(), draft_lane::not_fed);
}

/// In a chain, tokens ranked after the chosen one are known as guesses.
void keep_alternates(draft_lane& lane, std::vector<sampling::ranked_token>& ranked) {
  if (ranked.empty()) return;
  std::vector<token_id> others;
  for (std::size_t i = 1; i < ranked.size(); ++i) others.push_back(ranked[i].token);
  lane.alternates.push_back(std::move(others));
  ranked.resize(1);
  ranked.front().weight = 1.0F; // the weight of an only child has no effect
}

/// The best `count` tokens of a node's row. In a chain this is the best one.
void rank_row(draft_lane& lane, const tree_shape& shape, std::int32_t node, std::size_t count,
              std::span<float> scores, std::vector<sampling::ranked_token>& best) {
  const draft_task& task = *lane.task;
  const bool chain = shape.kind == config::tree_kind::chain;
  const bool alternates = chain && task.num_alternates > 0;
  if (alternates) count = 1 + task.num_alternates;
  const std::vector<token_id> path = lane.candidates.path_tokens(node);
  const sampling::row_context row = row_below(task, path);
  if (lane.choice == token_choice::own_best) {
    best.assign(1, {token_id{static_cast<std::int32_t>(sampling::argmax(scores))}, 1.0F});
  } else if (lane.choice == token_choice::likeliest) {
    task.sampling->rank_likeliest(scores, row, count, best);
  } else if (chain && !alternates) { // cheaper than ranking
    const sampling::choice chosen = task.sampling->choose(scores, row);
    best.clear();
    if (!chosen.hopeless) best.push_back({chosen.token, 1.0F});
  } else {
    task.sampling->rank_choices(scores, row, count, best);
  }
  if (alternates) keep_alternates(lane, best);
  weigh_among_siblings(shape, best);
}

/// Equal rows are ranked once, for the node with the most children. (Only static trees have nodes with
/// different numbers of children, and their weights have no effect.)
void rank_candidates(draft_lane& lane, const tree_shape& shape, const logits_row& rows) {
  const bool shares_ranks = !lane.needs_each_row();
  std::uint32_t most = 0;
  for (const expansion& one : lane.wanted) most = std::max(most, one.num_children);
  std::vector<sampling::ranked_token> best;
  for (std::size_t i = 0; i < lane.wanted.size(); ++i) {
    const auto [node, count] = lane.wanted[i];
    if (i == 0 || !shares_ranks) rank_row(lane, shape, node, shares_ranks ? most : count, rows(i), best);
    add_children(lane, shape, node, std::span(best).first(std::min<std::size_t>(count, best.size())));
  }
}

void draw_candidates(draft_lane& lane, const tree_shape& shape, const logits_row& rows) {
  const draft_task& task = *lane.task;
  const std::uint32_t depth = lane.depth();
  std::vector<draft_distribution> from(lane.wanted.size());
  std::vector<std::vector<float>> weights(lane.wanted.size());
  for (std::size_t i = 0; i < lane.wanted.size(); ++i) {
    const std::vector<token_id> path = lane.candidates.path_tokens(lane.wanted[i].node);
    const std::span<float> scores = rows(i);
    if (task.sampling->process(scores, row_below(task, path))) from[i] = truncated_distribution(scores);
    weights[i] = from[i].probs;
  }
  plan_draws(shape, lane.candidates, lane.bounds, depth, lane.wanted, weights);
  const token_position position{static_cast<std::uint32_t>(task.tokens.size()) + depth};
  const auto noise_at = [&](std::size_t sibling) {
    return task.sampling->noise(noise_purpose::draft, position,
                                draft_place(depth, static_cast<std::uint32_t>(sibling)));
  };
  const bool independent = shape.kind == config::tree_kind::independent;
  for (std::size_t i = 0; i < lane.wanted.size(); ++i) {
    // Siblings share the noise of their place, which orders them. Cousins share it, too: at most one of their
    // parents is kept, and the children do not influence which. Independent chains have their own noise.
    const std::uint32_t count = lane.wanted[i].num_children;
    drawn_tokens drawn = independent ? draw_independently(
                                           from[i], [&](std::uint32_t k) { return noise_at(i + k); }, count)
                                     : draw_without_replacement(from[i], noise_at(0), count);
    if (shape.kind == config::tree_kind::chain && task.num_alternates > 0 && !drawn.tokens.empty()) {
      std::vector<token_id> others = from[i].tokens; // the other tokens, likeliest first
      std::erase(others, drawn.tokens.front().token);
      if (others.size() > task.num_alternates) others.resize(task.num_alternates);
      lane.alternates.push_back(std::move(others));
    }
    add_children(lane, shape, lane.wanted[i].node, drawn.tokens);
    std::move(drawn.distributions.begin(), drawn.distributions.end(), std::back_inserter(lane.distributions));
  }
}

} // namespace

drawn_tokens draw_independently(const draft_distribution& from,
                                const std::function<noise_stream(std::uint32_t sibling)>& noise,
                                std::uint32_t count) {
  drawn_tokens result;
  if (from.tokens.empty()) return result;
  for (std::uint32_t sibling = 0; sibling < count; ++sibling) {
    const token_id token = draw(from, noise(sibling));
    const auto at = std::find(from.tokens.begin(), from.tokens.end(), token) - from.tokens.begin();
    result.tokens.push_back({token, from.probs[static_cast<std::size_t>(at)]});
    result.distributions.push_back(from);
  }
  return result;
}

drawn_tokens draw_without_replacement(const draft_distribution& from, const noise_stream& noise,
                                      std::size_t count) {
  struct entry {
    double key;
    token_id token;
    float prob;
  };
  std::vector<entry> order;
  for (std::size_t i = 0; i < from.tokens.size(); ++i)
    if (from.probs[i] > 0.0F)
      order.push_back({portable_log(static_cast<double>(from.probs[i])) + noise.gumbel(from.tokens[i]),
                       from.tokens[i], from.probs[i]});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [](const entry& a, const entry& b) { return a.key > b.key || (a.key == b.key && a.token < b.token); });
  drawn_tokens result;
  draft_distribution left = from;
  for (std::size_t i = 0; i < count; ++i) {
    result.tokens.push_back({order[i].token, order[i].prob});
    result.distributions.push_back(left);
    const auto at = std::find(left.tokens.begin(), left.tokens.end(), order[i].token) - left.tokens.begin();
    left.tokens.erase(left.tokens.begin() + at);
    left.probs.erase(left.probs.begin() + at);
    double total = 0;
    for (const float prob : left.probs) total += static_cast<double>(prob);
    for (float& prob : left.probs) prob = static_cast<float>(static_cast<double>(prob) / total);
  }
  return result;
}

bool draft_lane::needs_each_row() const noexcept {
  if (wanted.size() <= 1) return false;
  const bool reads_path = task->sampling->reads_counts() || task->constraint != nullptr;
  return !has_equal_rows || choice == token_choice::drawn || reads_path;
}

void add_candidates(draft_lane& lane, const tree_shape& shape, const logits_row& rows) {
  if (lane.choice == token_choice::drawn)
    draw_candidates(lane, shape, rows);
  else
    rank_candidates(lane, shape, rows);
}

void finish_draft(draft_lane& lane, const tree_shape& shape) {
  draft& result = lane.task->result;
  std::vector<std::int32_t> chosen(lane.candidates.size());
  if (lane.choice == token_choice::drawn)
    // Dropping a node because of its token would bias the distribution.
    std::iota(chosen.begin(), chosen.end(), 0);
  else
    chosen = chosen_nodes(shape, lane.candidates, lane.bounds);
  result.tree = tree_of(lane.candidates, chosen);
  result.probs = std::move(lane.distributions);
  result.plan = {lane.bounds.depth,
                 shape.kind == config::tree_kind::chain ? lane.bounds.depth : lane.bounds.nodes};
  if (lane.alternates.size() == result.tree.size()) result.alternates = std::move(lane.alternates);
}

} // namespace paceline::speculation
