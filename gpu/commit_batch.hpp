#pragma once

#include "gpu/kernels/kv_commit_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// The arguments of `kv_commit`, packed into one piece of memory in the layout of its kernel: the drafts
/// whose accepted cells are moved to consecutive slots, the parents of their nodes, and the layers.
class commit_batch {
 public:
  /// Throws check_failure in the cases of `device::check_drafts`, and if the layers belong to several pools.
  explicit commit_batch(const device::kv_commit_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// The kernel's parameters for a copy of `bytes` at `at`, a device address. The caller sets `batch` and
  /// `chosen`.
  kv_commit_params params_at(const std::byte* at) const noexcept;
  /// Number of thread blocks for each draft.
  std::uint32_t num_blocks() const noexcept;

 private:
  std::vector<std::byte> bytes_;
  std::size_t layers_at_ = 0, drafts_at_ = 0, parents_at_ = 0;
  device::cell_vectors vectors_;
  std::uint32_t num_layers_ = 0;
  std::uint32_t blocks_per_layer_ = 0;
};

} // namespace paceline::gpu
