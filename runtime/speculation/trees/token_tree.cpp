#include "runtime/speculation/trees/token_tree.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <string>

namespace paceline::speculation {

std::int32_t token_tree::add(token_id token, std::int32_t parent) {
  const auto node = static_cast<std::int32_t>(tokens_.size());
  PACELINE_CHECK(size() < max_nodes, "a token tree holds at most 64 nodes");
  PACELINE_CHECK(parent >= root && parent < node,
                 "parent " + std::to_string(parent) + " of node " + std::to_string(node));
  const std::uint64_t self = std::uint64_t{1} << node;
  tokens_.push_back(token);
  parents_.push_back(parent);
  depths_.push_back(parent == root ? 0 : depths_[static_cast<std::size_t>(parent)] + 1);
  ancestors_.push_back(parent == root ? self : ancestors_[static_cast<std::size_t>(parent)] | self);
  return node;
}

void token_tree::clear() { truncate(0); }

void token_tree::truncate(std::uint32_t num_nodes) {
  if (num_nodes >= size()) return;
  tokens_.resize(num_nodes);
  parents_.resize(num_nodes);
  depths_.resize(num_nodes);
  ancestors_.resize(num_nodes);
}

bool token_tree::is_chain() const noexcept {
  for (std::size_t node = 0; node < parents_.size(); ++node)
    if (parents_[node] != static_cast<std::int32_t>(node) - 1) return false;
  return true;
}

std::optional<std::int32_t> token_tree::child(std::int32_t parent, token_id token) const noexcept {
  for (auto node = static_cast<std::size_t>(parent + 1); node < tokens_.size(); ++node)
    if (parents_[node] == parent && tokens_[node] == token) return static_cast<std::int32_t>(node);
  return std::nullopt;
}

std::vector<std::int32_t> token_tree::children(std::int32_t parent) const {
  std::vector<std::int32_t> result;
  for (auto node = static_cast<std::size_t>(parent + 1); node < parents_.size(); ++node)
    if (parents_[node] == parent) result.push_back(static_cast<std::int32_t>(node));
  return result;
}

bool token_tree::is_leaf(std::int32_t node) const noexcept {
  return std::find(parents_.begin() + (node + 1), parents_.end(), node) == parents_.end();
}

std::vector<std::int32_t> token_tree::path_to(std::int32_t node) const {
  std::vector<std::int32_t> path;
  for (std::int32_t at = node; at != root; at = parents_[static_cast<std::size_t>(at)]) path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<token_id> token_tree::path_tokens(std::int32_t node) const {
  std::vector<token_id> path;
  for (const auto at : path_to(node)) path.push_back(tokens_[static_cast<std::size_t>(at)]);
  return path;
}

bool token_tree::valid() const noexcept {
  const std::size_t count = tokens_.size();
  if (count > max_nodes || parents_.size() != count || depths_.size() != count || ancestors_.size() != count)
    return false;
  for (std::size_t node = 0; node < count; ++node) {
    const std::int32_t parent = parents_[node];
    if (parent < root || parent >= static_cast<std::int32_t>(node)) return false;
    const bool top = parent == root;
    const std::uint32_t depth = top ? 0 : depths_[static_cast<std::size_t>(parent)] + 1;
    const std::uint64_t above = top ? 0 : ancestors_[static_cast<std::size_t>(parent)];
    if (depths_[node] != depth || ancestors_[node] != (above | (std::uint64_t{1} << node))) return false;
  }
  return true;
}

} // namespace paceline::speculation
