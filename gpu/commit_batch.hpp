#pragma once

#include "gpu/kernels/kv_commit_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// Packs drafts whose cells are moved to consecutive slots, their parents, and the layers of the cells into
/// one piece of memory, in the layout of the kernel kv_commit.
class commit_batch {
 public:
  /// Fails a check if the arguments violate a rule of the op.
  explicit commit_batch(const device::kv_commit_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// The kernel's parameters for a copy of `bytes` at `at`. The caller sets `batch` and `chosen`.
  kv_commit_params params_at(const std::byte* at) const noexcept;
  /// Blocks of the kernel for each draft.
  std::uint32_t num_blocks() const noexcept;

 private:
  std::vector<std::byte> bytes_;
  std::size_t layers_at_ = 0, drafts_at_ = 0, parents_at_ = 0;
  device::cell_vectors vectors_;
  std::uint32_t num_layers_ = 0;
  std::uint32_t blocks_per_layer_ = 0;
};

} // namespace paceline::gpu
