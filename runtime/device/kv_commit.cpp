#include "runtime/base/check.hpp"
#include "runtime/device/op_kv_commit.hpp"
#include "runtime/device/ops.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace paceline::device {
namespace {

/// Nodes from the root down to `place`.
std::vector<std::uint32_t> path_to(std::int32_t place, std::span<const std::int32_t> parents) {
  PACELINE_CHECK(place < static_cast<std::int32_t>(parents.size()),
                 "kv_commit: node " + std::to_string(place) + " of " + std::to_string(parents.size()));
  std::vector<std::uint32_t> path;
  for (std::int32_t n = place; n >= 0; n = parents[static_cast<std::size_t>(n)])
    path.insert(path.begin(), static_cast<std::uint32_t>(n));
  return path;
}

std::vector<kv_copy> copies_for(const kv_commit_args& args) {
  const std::uint32_t block_size = args.layers.front().block_size;
  std::vector<kv_copy> copies;
  for (const drafted_cells& draft : args.drafts) {
    const std::span blocks = args.batch->sequences[draft.sequence].blocks;
    std::uint32_t to = draft.base.value;
    for (const std::uint32_t node : path_to(args.chosen[draft.choice].place, draft.parents)) {
      if (const std::uint32_t from = draft.base.value + node; from != to)
        copies.push_back(
            {blocks[from / block_size], from % block_size, blocks[to / block_size], to % block_size, 1});
      ++to;
    }
  }
  return copies;
}

void copy_vectors(const cell_vectors& vectors, std::uint32_t block_size, std::span<const kv_copy> copies) {
  const auto at = [&](block_id block, std::uint32_t cell) {
    return vectors.values + (std::size_t{block.value} * block_size + cell) * vectors.width;
  };
  for (const kv_copy& copy : copies)
    std::copy_n(at(copy.from_block, copy.from_offset), vectors.width, at(copy.to_block, copy.to_offset));
}

} // namespace

void check_drafts(const kv_commit_args& args) {
  for (const drafted_cells& draft : args.drafts) {
    const auto num_nodes = draft.parents.size();
    PACELINE_CHECK(num_nodes <= max_draft_nodes,
                   "kv_commit: a draft of " + std::to_string(num_nodes) + " nodes");
    for (std::size_t n = 0; n < num_nodes; ++n)
      PACELINE_CHECK(draft.parents[n] >= -1 && draft.parents[n] < static_cast<std::int32_t>(n),
                     "kv_commit: a node stands before its parent");
    PACELINE_CHECK(draft.sequence < args.batch->sequences.size(),
                   "kv_commit: cells of sequence " + std::to_string(draft.sequence));
    const std::span blocks = args.batch->sequences[draft.sequence].blocks;
    const kv_layer& layer = args.layers.front();
    PACELINE_CHECK(draft.base.value + std::uint64_t{num_nodes} <=
                       blocks.size() * std::uint64_t{layer.block_size},
                   "kv_commit: a draft from slot " + to_string(draft.base) + " is beyond its blocks");
    for (std::size_t b = draft.base.value / layer.block_size; b < blocks.size(); ++b)
      PACELINE_CHECK(blocks[b].value < layer.num_blocks, "kv_commit: cells outside the pool");
  }
}

void ops::kv_commit(const kv_commit_args& args) {
  if (args.layers.empty()) return;
  check_drafts(args);
  const auto copies = copies_for(args);
  for (const kv_layer& layer : args.layers) kv_copy({layer, copies});
  if (args.vectors.values != nullptr) copy_vectors(args.vectors, args.layers.front().block_size, copies);
}

} // namespace paceline::device
