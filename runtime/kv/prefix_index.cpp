#include "runtime/kv/prefix_index.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace paceline::kv {

prefix_index::prefix_index(std::uint32_t num_blocks, std::uint32_t block_size, block_hasher hasher)
    : block_size_(block_size), hasher_(std::move(hasher)), nodes_(num_blocks),
      tokens_(std::size_t{num_blocks} * block_size),
      buckets_(std::bit_ceil(std::size_t{num_blocks} * 2), none) {}

hash128 prefix_index::hash_of(node_ref parent, std::string_view salt, std::uint32_t num_prompt_cells,
                              std::span<const token_id> tokens) const {
  const bool root = parent.serial == 0;
  return hasher_({root ? hash128{} : nodes_[parent.block.value].hash, root ? salt : std::string_view{},
                  num_prompt_cells, tokens});
}

std::optional<prefix_index::node_ref> prefix_index::find(node_ref parent, std::string_view salt,
                                                         std::uint32_t num_prompt_cells,
                                                         std::span<const token_id> tokens) const {
  PACELINE_CHECK(tokens.size() == block_size_, "only full blocks are indexed");
  if (!contains(parent)) return std::nullopt;
  const auto hash = hash_of(parent, salt, num_prompt_cells, tokens);
  for (auto i = bucket_of(hash); i != none; i = nodes_[i].next_in_bucket) {
    const auto& n = nodes_[i];
    if (n.hash == hash && n.parent == parent && n.num_prompt_cells == num_prompt_cells &&
        (parent.serial != 0 || *n.salt == salt) && std::ranges::equal(tokens_of(i), tokens))
      return node_ref{block_id{i}, n.serial};
  }
  return std::nullopt;
}

prefix_index::node_ref prefix_index::insert(node_ref parent, const std::shared_ptr<const std::string>& salt,
                                            std::uint32_t num_prompt_cells, std::span<const token_id> tokens,
                                            block_id block) {
  PACELINE_CHECK(tokens.size() == block_size_, "only full blocks are indexed");
  PACELINE_CHECK(contains(parent), "the parent of block " + to_string(block) + " is not in the index");
  auto& n = nodes_.at(block.value);
  PACELINE_CHECK(n.serial == 0, "block " + to_string(block) + " is indexed already");
  if (parent.serial == 0) n.salt = salt;
  n.hash = hash_of(parent, *salt, num_prompt_cells, tokens);
  n.parent = parent;
  n.num_prompt_cells = num_prompt_cells;
  n.first_child = none;
  n.idle = false;
  n.serial = next_serial_++;
  std::ranges::copy(tokens,
                    tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block.value} * block_size_));
  n.next_in_bucket = std::exchange(bucket_of(n.hash), block.value);
  link_to_parent(block.value);
  ++num_nodes_;
  return {block, n.serial};
}

void prefix_index::set_idle(block_id block, bool idle, std::uint64_t now) {
  PACELINE_CHECK(contains(block), "block " + to_string(block) + " is not indexed");
  if (nodes_[block.value].idle == idle) return;
  nodes_[block.value].last_use = now;
  idle ? append_idle(block.value) : remove_idle(block.value);
}

std::optional<std::uint64_t> prefix_index::oldest_use() const {
  return oldest_ == none ? std::nullopt : std::optional(nodes_[oldest_].last_use);
}

void prefix_index::append_idle(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  n.idle = true;
  n.newer = none;
  n.older = newest_;
  (newest_ == none ? oldest_ : nodes_[newest_].newer) = index;
  newest_ = index;
  ++num_idle_;
}

void prefix_index::remove_idle(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  (n.older == none ? oldest_ : nodes_[n.older].newer) = n.newer;
  (n.newer == none ? newest_ : nodes_[n.newer].older) = n.older;
  n.idle = false;
  --num_idle_;
}

void prefix_index::link_to_parent(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  n.previous_sibling = n.next_sibling = none;
  if (n.parent.serial == 0) return;
  auto& first = nodes_[n.parent.block.value].first_child;
  n.next_sibling = first;
  if (first != none) nodes_[first].previous_sibling = index;
  first = index;
}

void prefix_index::unlink_from_parent(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  if (n.parent.serial == 0) return;
  auto& before = n.previous_sibling == none ? nodes_[n.parent.block.value].first_child
                                            : nodes_[n.previous_sibling].next_sibling;
  before = n.next_sibling;
  if (n.next_sibling != none) nodes_[n.next_sibling].previous_sibling = n.previous_sibling;
}

std::optional<block_id> prefix_index::evict() {
  if (oldest_ == none) return std::nullopt;
  // Requests release their last block first, so the oldest idle node is a leaf, unless a request that
  // computed its own copy of the parent's content still holds a child.
  auto leaf = oldest_;
  while (leaf != none && nodes_[leaf].first_child != none) leaf = nodes_[leaf].newer;
  if (leaf == none) // all idle nodes have such children
    for (leaf = oldest_; nodes_[leaf].first_child != none;) leaf = nodes_[leaf].first_child;
  remove(leaf);
  return block_id{leaf};
}

void prefix_index::remove(std::uint32_t index) noexcept {
  auto& n = nodes_[index];
  if (n.idle) remove_idle(index);
  auto* link = &bucket_of(n.hash);
  while (*link != index) link = &nodes_[*link].next_in_bucket;
  *link = n.next_in_bucket;
  unlink_from_parent(index);
  n.serial = 0;
  n.salt.reset();
  --num_nodes_;
}

expected<void> prefix_index::check_invariants() const {
  const auto broken = [](std::string what) {
    return error(errc::internal, "prefix index: " + std::move(what));
  };
  std::vector<std::uint32_t> num_children(nodes_.size());
  std::uint32_t num_nodes = 0;
  std::uint32_t num_idle = 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const auto& n = nodes_[i];
    if (n.serial == 0) continue;
    ++num_nodes;
    if (n.idle) ++num_idle;
    if (!contains(n.parent)) return broken("the parent of block " + std::to_string(i) + " is gone");
    if (n.parent.serial != 0) ++num_children[n.parent.block.value];
    const auto salt = n.salt ? std::string_view(*n.salt) : std::string_view{};
    if (find(n.parent, salt, n.num_prompt_cells, tokens_of(i)) != node_ref{block_id{i}, n.serial})
      return broken("block " + std::to_string(i) + " is not found by its content");
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].serial == 0) continue;
    std::uint32_t num_listed = 0;
    for (auto before = none, child = nodes_[i].first_child; child != none && num_listed <= num_children[i];
         before = child, child = nodes_[child].next_sibling) {
      const auto& n = nodes_[child];
      const bool ours = n.parent == node_ref{block_id{i}, nodes_[i].serial};
      num_listed += ours && n.previous_sibling == before ? 1 : num_children[i] + 1;
    }
    if (num_listed != num_children[i])
      return broken("block " + std::to_string(i) + " lists its children wrongly");
  }
  std::uint32_t num_listed = 0;
  for (auto i = oldest_; i != none; i = nodes_[i].newer) {
    if (!nodes_[i].idle || ++num_listed > num_idle) return broken("the list of idle blocks is damaged");
  }
  if (num_nodes != num_nodes_ || num_idle != num_idle_ || num_listed != num_idle)
    return broken("counts differ");
  return {};
}

} // namespace paceline::kv
