#pragma once

#include "gpu/kernels/kv_commit_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// Drafts whose cells are moved to consecutive slots, and the layers of these cells, in one piece of memory
/// in the kernel's layout.
class commit_batch {
 public:
  /// Fails a check if the arguments violate a rule of the op.
  explicit commit_batch(const device::kv_commit_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// The kernel's parameters, except the batch and the choices, once `bytes` have been copied to `at`.
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
