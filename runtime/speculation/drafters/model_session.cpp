#include "runtime/speculation/drafters/model_session.hpp"

#include "runtime/base/check.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <algorithm>
#include <string>

namespace paceline::speculation {

void model_session::take_over(std::span<const token_id> tokens) {
  PACELINE_CHECK(cached_.empty() && branches_.empty(), "cells are taken over before others are computed");
  cached_.assign(tokens.begin(), tokens.end());
}

void model_session::feed(token_id token) {
  PACELINE_CHECK(branches_.empty(), "the context ends where a draft begins");
  cached_.push_back(token);
}

std::int32_t model_session::feed_branch(token_id token, std::int32_t parent) {
  const auto number = static_cast<std::int32_t>(branches_.size());
  PACELINE_CHECK(parent >= token_tree::root && parent < number, "parent " + std::to_string(parent));
  branches_.push_back({.token = token, .parent = parent});
  return number;
}

std::vector<kv_slot> model_session::path_to(std::int32_t branch) const {
  std::vector<kv_slot> path;
  for (std::int32_t at = branch; at != token_tree::root; at = branches_[static_cast<std::size_t>(at)].parent)
    path.push_back(kv_slot{static_cast<std::uint32_t>(cached_.size()) + static_cast<std::uint32_t>(at)});
  std::reverse(path.begin(), path.end());
  const bool linear = !path.empty() && path.back().value - cached_.size() + 1 == path.size();
  if (linear) path.clear();
  return path;
}

std::vector<device::kv_copy> model_session::settle(std::span<const token_id> context,
                                                   std::span<const block_id> blocks,
                                                   std::uint32_t block_size) {
  std::vector<device::kv_copy> moves;
  const std::size_t end = std::min(cached_.size(), context.size());
  num_agreed_ = std::min(num_agreed_, end);
  while (num_agreed_ < end && cached_[num_agreed_] == context[num_agreed_]) ++num_agreed_;
  if (num_agreed_ < cached_.size()) { // the branches continue tokens that were not committed
    cached_.resize(num_agreed_);
    branches_.clear();
    return moves;
  }
  const auto base = static_cast<std::uint32_t>(cached_.size());
  std::int32_t at = token_tree::root;
  while (cached_.size() < context.size()) {
    const auto next = std::find_if(branches_.begin() + (at + 1), branches_.end(), [&](const branch& one) {
      return one.parent == at && one.token == context[cached_.size()];
    });
    if (next == branches_.end()) break;
    at = static_cast<std::int32_t>(next - branches_.begin());
    const std::uint32_t from = base + static_cast<std::uint32_t>(at);
    const auto to = static_cast<std::uint32_t>(cached_.size());
    PACELINE_CHECK(from / block_size < blocks.size(), "cell " + std::to_string(from) +
                                                          " of a draft is beyond " +
                                                          std::to_string(blocks.size()) + " blocks");
    if (from != to) // parents come first, so a cell is read before it is overwritten
      moves.push_back({.from_block = blocks[from / block_size],
                       .from_offset = from % block_size,
                       .to_block = blocks[to / block_size],
                       .to_offset = to % block_size,
                       .num_cells = 1});
    cached_.push_back(next->token);
  }
  num_agreed_ = cached_.size();
  branches_.clear();
  return moves;
}

void model_session::forget_all() {
  cached_.clear();
  branches_.clear();
  num_agreed_ = 0;
}

} // namespace paceline::speculation
