#pragma once

#include "gpu/kernels/choice_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// Requests to choose tokens for, in one piece of memory in the kernels' layout.
class choice_batch {
 public:
  /// Fails a check if the arguments violate a rule of the op.
  explicit choice_batch(const device::choose_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// The kernels' view, once `bytes` have been copied to `at`.
  choice_view view_at(const std::byte* at) const noexcept;
  /// True if a logit has to be changed.
  bool edits() const noexcept { return edits_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t requests_at_ = 0, rows_at_ = 0, tokens_at_ = 0, parents_at_ = 0;
  std::size_t biases_at_ = 0, counts_at_ = 0, removed_at_ = 0, paths_at_ = 0;
  bool edits_ = false;
};

} // namespace paceline::gpu
