#include "runtime/speculation/drafters/draft.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/portable_math.hpp"
#include "runtime/sampling/truncation.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace paceline::speculation {

namespace {

error broken(std::uint32_t node, const std::string& rule) {
  return {errc::invalid_argument, "draft node " + std::to_string(node) + ": " + rule};
}

expected<void> validate_distribution(const draft_distribution& from, std::uint32_t node, token_id drawn,
                                     std::uint32_t vocab_size) {
  if (from.tokens.size() != from.probs.size() || from.tokens.empty() ||
      from.tokens.size() > draft_distribution::max_entries)
    return broken(node, "its distribution must have 1 to 64 tokens and as many probabilities");
  double sum = 0;
  bool possible = false;
  for (std::size_t i = 0; i < from.tokens.size(); ++i) {
    const token_id token = from.tokens[i];
    if (token.value < 0 || static_cast<std::uint32_t>(token.value) >= vocab_size)
      return broken(node, "token " + to_string(token) + " of its distribution is not in the vocabulary");
    if (!(from.probs[i] >= 0.0F && from.probs[i] <= 1.0F))
      return broken(node, "a draft probability must lie in [0, 1]");
    if (std::find(from.tokens.begin(), from.tokens.begin() + static_cast<std::ptrdiff_t>(i), token) !=
        from.tokens.begin() + static_cast<std::ptrdiff_t>(i))
      return broken(node, "token " + to_string(token) + " occurs twice in its distribution");
    possible = possible || (token == drawn && from.probs[i] > 0.0F);
    sum += static_cast<double>(from.probs[i]);
  }
  if (std::abs(sum - 1.0) > 1e-3) return broken(node, "its probabilities must sum to 1");
  if (!possible) return broken(node, "its distribution gives its token probability 0");
  return {};
}

} // namespace

draft_distribution truncated_distribution(std::span<const float> scores) {
  thread_local std::vector<sampling::candidate> best;
  sampling::select_top(scores, draft_distribution::max_entries, best);
  draft_distribution result;
  double total = 0;
  for (const sampling::candidate& entry : best) total += static_cast<double>(portable_exp(entry.score));
  for (const sampling::candidate& entry : best) {
    const auto prob = static_cast<float>(static_cast<double>(portable_exp(entry.score)) / total);
    if (prob <= 0.0F) break; // the following ones are no likelier
    result.tokens.push_back(entry.token);
    result.probs.push_back(prob);
  }
  return result;
}

std::int32_t draft::add_probe(token_id token, std::int32_t parent) {
  const auto row = static_cast<std::int32_t>(num_rows());
  PACELINE_CHECK(parent >= token_tree::root && parent < row, "a probe's parent stands before it");
  const auto depth_of = [&](std::int32_t of) {
    const auto at = static_cast<std::size_t>(of);
    return at < tree.size() ? tree.depths()[at] : probes[at - tree.size()].depth;
  };
  probes.push_back({token, parent, parent == token_tree::root ? 0 : depth_of(parent) + 1});
  return row;
}

std::vector<std::int32_t> draft::path_to(std::int32_t row) const {
  std::vector<std::int32_t> path;
  for (auto at = row; at != token_tree::root;) {
    path.push_back(at);
    const auto index = static_cast<std::size_t>(at);
    at = index < tree.size() ? tree.parents()[index] : probes[index - tree.size()].parent;
  }
  std::ranges::reverse(path);
  return path;
}

draft part_of(draft whole, const std::vector<bool>& keep, bool with_probes_alone) {
  draft part{.base_length = whole.base_length, .drafted = whole.drafted};
  constexpr std::int32_t gone = -2;
  std::vector<std::int32_t> moved_to(whole.num_rows(), gone); // by row
  for (std::uint32_t node = 0; node < whole.tree.size(); ++node) {
    if (!keep[node]) continue;
    const std::int32_t parent = whole.tree.parents()[node];
    moved_to[node] =
        part.tree.add(whole.tree.tokens()[node],
                      parent == token_tree::root ? parent : moved_to[static_cast<std::size_t>(parent)]);
    if (!whole.probs.empty()) part.probs.push_back(std::move(whole.probs[node]));
    if (!whole.signals.empty()) part.signals.push_back(whole.signals[node]);
  }
  if (part.tree.empty() && !with_probes_alone) return part;
  for (std::size_t i = 0; i < whole.probes.size(); ++i) {
    const auto& [token, parent, depth] = whole.probes[i];
    const auto above = parent == token_tree::root ? parent : moved_to[static_cast<std::size_t>(parent)];
    if (above != gone) moved_to[whole.tree.size() + i] = part.add_probe(token, above);
  }
  return part;
}

token_id draw(const draft_distribution& from, const noise_stream& noise) {
  sampling::gumbel_race race(noise);
  for (std::size_t entry = 0; entry < from.tokens.size(); ++entry)
    if (from.probs[entry] > 0.0F)
      race.enter(portable_log(static_cast<double>(from.probs[entry])), from.tokens[entry]);
  return race.winner();
}

void draft::truncate(std::uint32_t count) {
  probes.resize(std::min<std::size_t>(probes.size(), count - std::min(count, tree.size())));
  if (count >= tree.size()) return;
  tree.truncate(count);
  if (probs.size() > count) probs.resize(count);
  if (signals.size() > count) signals.resize(count);
}

expected<void> validate_draft(const draft& proposal, std::uint32_t vocab_size, std::uint32_t max_depth,
                              std::uint32_t max_probe_depth, std::uint32_t num_inputs) {
  const token_tree& tree = proposal.tree;
  if (!tree.valid()) return error{errc::invalid_argument, "draft: its arrays do not form a tree"};
  if (proposal.num_rows() > draft::max_rows)
    return error{errc::invalid_argument, "draft: has more than 192 nodes and probes"};
  if (!proposal.probs.empty() && proposal.probs.size() != tree.size())
    return error{errc::invalid_argument, "draft: needs one distribution a node, or none"};
  const std::uint32_t deepest_probe = std::max(max_depth, max_probe_depth);
  for (std::uint32_t row = tree.size(); row < proposal.num_rows(); ++row) {
    const auto& [token, parent, depth] = proposal.probes[row - tree.size()];
    if (token.value < 0 || static_cast<std::uint32_t>(token.value) >= vocab_size + num_inputs)
      return broken(row, "token " + to_string(token) + " is not in the vocabulary");
    if (parent < token_tree::root || parent >= static_cast<std::int32_t>(row))
      return broken(row, "a probe's parent stands before it");
    if (depth + 1 != proposal.path_to(static_cast<std::int32_t>(row)).size() || depth >= deepest_probe)
      return broken(row, "a probe deeper than " + std::to_string(deepest_probe));
  }
  for (std::uint32_t node = 0; node < tree.size(); ++node) {
    const token_id token = tree.tokens()[node];
    if (token.value < 0 || static_cast<std::uint32_t>(token.value) >= vocab_size)
      return broken(node, "token " + to_string(token) + " is not in the vocabulary");
    if (tree.depths()[node] >= max_depth)
      return broken(node, "deeper than the draft length " + std::to_string(max_depth));
    if (proposal.probs.empty()) continue;
    if (auto checked = validate_distribution(proposal.probs[node], node, token, vocab_size); !checked)
      return checked;
  }
  return {};
}

} // namespace paceline::speculation
