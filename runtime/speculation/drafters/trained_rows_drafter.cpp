#include "runtime/speculation/drafters/trained_rows_drafter.hpp"

#include "runtime/speculation/drafters/host_drafter.hpp"
#include "runtime/speculation/drafters/trained_trees.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace paceline::speculation {

namespace {

/// The drafter stores nothing for a request. The report of the last round has everything that it needs.
struct no_session final : drafter_session {};

class trained_rows_drafter final : public host_drafter<no_session> {
 public:
  trained_rows_drafter(const config::drafter_options& options, const drafter_parts& parts,
                       trained_trees trees)
      : host_drafter(options), max_tree_nodes_(options.max_tree_nodes),
        is_in_every_pass_(options.kind == "ppd"), inputs_(parts.own_inputs), first_input_(parts.first_input),
        trees_(std::move(trees)) {
    traits_.where = placement::in_pass;
    traits_.top_tokens = 1;
    for (const auto& tree : trees_)
      for (const auto& node : tree)
        traits_.top_tokens = std::max(traits_.top_tokens, *std::ranges::max_element(node.path) + 1);
  }

  std::unique_ptr<drafter_session> open(request_id) override { return std::make_unique<no_session>(); }
  const model::lookahead_inputs* inputs() const noexcept override { return inputs_.get(); }

  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override {
    std::size_t most = draft_length;
    const auto is_within = [&](const auto& node) { return node.path.size() <= draft_length; };
    for (const auto& tree : trees_)
      most = std::max<std::size_t>(most, static_cast<std::size_t>(std::ranges::count_if(tree, is_within)));
    return static_cast<std::uint32_t>(std::min<std::size_t>(
        most, std::max(draft_length, std::min(max_tree_nodes_, token_tree::max_nodes))));
  }
  std::uint32_t max_probes() const noexcept override {
    std::uint32_t most = inputs_->num_rows;
    for (const auto& tree : trees_) {
      std::uint32_t rows = inputs_->num_rows;
      for (const auto& node : tree) rows += is_in_every_pass_ ? node.num_rows : 0;
      most = std::max(most, rows);
    }
    return std::min(most, draft::max_rows - token_tree::max_nodes);
  }

 private:
  /// The target's likeliest tokens for each level after the newest token, best first. They come from the rows
  /// after the node that was accepted last, as far as there are any.
  std::vector<std::span<const token_id>> known_levels(const draft_task& task) const {
    std::vector<std::span<const token_id>> levels;
    if (task.last_round == nullptr || task.last_round->num_top == 0) return levels;
    const round_feedback& round = *task.last_round;
    const auto& accepted = round.accepted_path;
    if (round.verified.base_length + accepted.size() + 1 != task.tokens.size()) return levels;
    std::int32_t above = accepted.empty() ? token_tree::root : accepted.back();
    auto row = static_cast<std::int32_t>(round.verified.tree.size());
    for (const probe& one : round.verified.probes) {
      const token_id wanted{first_input_.value + static_cast<std::int32_t>(levels.size())};
      if (levels.size() < inputs_->num_rows && one.parent == above && one.token == wanted) {
        levels.push_back(round.top_at(row));
        above = row;
      }
      ++row;
    }
    return levels;
  }

  /// Adds the tree for this number of known levels. Returns how many rows are to follow each node.
  std::vector<std::uint32_t> add_tree(const draft_task& task, draft& result) const {
    const auto levels = known_levels(task);
    std::vector<std::uint32_t> rows;
    if (levels.empty()) return rows;
    const std::uint32_t most = std::min(node_budget(task), std::max(max_tree_nodes_, chain_length(task)));
    std::map<std::vector<std::uint32_t>, std::int32_t> nodes{{{}, token_tree::root}};
    for (const auto& [path, num_rows] : trees_[levels.size() - 1]) {
      if (result.tree.size() == most) break;
      auto parent_path = path;
      parent_path.pop_back();
      const auto parent = nodes.find(parent_path);
      const auto& level = levels[parent_path.size()];
      if (path.size() > chain_length(task) || parent == nodes.end() || path.back() >= level.size() ||
          level[path.back()].value < 0) // the row had fewer finite logits
        continue;
      nodes[path] = result.tree.add(level[path.back()], parent->second);
      rows.push_back(num_rows);
    }
    return rows;
  }

  /// Adds rows after `parent`, as long as there are cells and positions.
  void add_rows(const draft_task& task, std::int32_t parent, std::uint32_t count, draft& result) const {
    const auto depth_above =
        parent == token_tree::root ? 0 : result.tree.depths()[static_cast<std::size_t>(parent)] + 1;
    count = std::min(
        {count, chain_length(task), task.max_probe_depth - std::min(depth_above, task.max_probe_depth)});
    for (std::uint32_t j = 0; j < count && result.num_rows() < task.max_rows; ++j)
      parent = result.add_probe(token_id{first_input_.value + static_cast<std::int32_t>(j)}, parent);
  }

  void draft_one(const draft_task& task, no_session&, draft& result) override {
    const auto rows = add_tree(task, result);
    if (!is_in_every_pass_ && !result.tree.empty()) return;
    add_rows(task, token_tree::root, inputs_->num_rows, result);
    for (std::size_t node = 0; node < rows.size(); ++node)
      add_rows(task, static_cast<std::int32_t>(node), rows[node], result);
  }

  std::uint32_t max_tree_nodes_;
  bool is_in_every_pass_; ///< false: they are only in passes without a draft
  std::shared_ptr<const model::lookahead_inputs> inputs_;
  token_id first_input_;
  trained_trees trees_;
};

} // namespace

expected<std::unique_ptr<drafter>> make_trained_rows_drafter(const drafter_parts& parts) {
  const config::drafter_options& options = parts.options;
  if (parts.own_inputs == nullptr || parts.own_inputs->num_rows == 0)
    return bad_option(options, "kind " + options.kind + " needs trained inputs (path)");
  auto trees = trees_for(options, *parts.own_inputs);
  if (!trees) return std::move(trees).error();
  return std::unique_ptr<drafter>(std::make_unique<trained_rows_drafter>(options, parts, *std::move(trees)));
}

} // namespace paceline::speculation
