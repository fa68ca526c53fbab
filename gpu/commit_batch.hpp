#pragma once

#include "gpu/kernels/kv_commit_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// Drafts whose cells are to be brought in line, and the layers that these are of, in one piece of memory as
/// the kernel reads it.
class commit_batch {
 public:
  /// Fails a check where the arguments break a rule of the op.
  explicit commit_batch(const device::kv_commit_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// What the kernel is given once `bytes` lie at `at`, but for the batch and what was chosen.
  kv_commit_params params_at(const std::byte* at) const noexcept;

 private:
  std::vector<std::byte> bytes_;
  std::size_t layers_at_ = 0, drafts_at_ = 0, parents_at_ = 0;
  std::uint32_t blocks_per_layer_ = 0;
};

} // namespace paceline::gpu
