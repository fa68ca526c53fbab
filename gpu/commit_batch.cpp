#include "gpu/commit_batch.hpp"

#include "gpu/packer.hpp"
#include "runtime/base/check.hpp"

namespace paceline::gpu {
namespace {

/// Whether the layers differ only in addresses.
bool are_alike(const device::kv_layer& a, const device::kv_layer& b) noexcept {
  return a.type == b.type && a.num_blocks == b.num_blocks && a.block_size == b.block_size &&
         a.num_heads == b.num_heads && a.head_dim == b.head_dim && a.heads_per_block == b.heads_per_block;
}

} // namespace

commit_batch::commit_batch(const device::kv_commit_args& args) {
  device::check_drafts(args);
  for (const device::kv_layer& layer : args.layers)
    PACELINE_CHECK(are_alike(layer, args.layers.front()), "kv_commit: layers of several pools");
  std::vector<commit_draft> drafts;
  std::vector<std::int32_t> parents;
  for (const device::drafted_cells& draft : args.drafts) {
    drafts.push_back({draft.choice, draft.sequence, draft.base, static_cast<std::uint32_t>(parents.size())});
    parents.insert(parents.end(), draft.parents.begin(), draft.parents.end());
  }
  packer packed(bytes_);
  layers_at_ = packed.add(args.layers);
  drafts_at_ = packed.add(drafts);
  parents_at_ = packed.add(parents);
  vectors_ = args.vectors;
  num_layers_ = static_cast<std::uint32_t>(args.layers.size());
  const std::uint32_t num_dimensions = args.layers.front().num_heads * args.layers.front().head_dim;
  blocks_per_layer_ = (num_dimensions + commit_threads - 1) / commit_threads;
}

kv_commit_params commit_batch::params_at(const std::byte* at) const noexcept {
  kv_commit_params params{};
  params.layers = reinterpret_cast<const device::kv_layer*>(at + layers_at_);
  params.drafts = reinterpret_cast<const commit_draft*>(at + drafts_at_);
  params.parents = reinterpret_cast<const std::int32_t*>(at + parents_at_);
  params.vectors = vectors_;
  params.num_layers = num_layers_;
  params.blocks_per_layer = blocks_per_layer_;
  return params;
}

std::uint32_t commit_batch::num_blocks() const noexcept {
  const std::uint32_t for_vectors =
      vectors_.values != nullptr ? (vectors_.width + commit_threads - 1) / commit_threads : 0;
  return num_layers_ * blocks_per_layer_ + for_vectors;
}

} // namespace paceline::gpu
