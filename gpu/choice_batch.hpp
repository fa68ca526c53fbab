#pragma once

#include "gpu/kernels/choice_params.hpp"

#include <cstddef>
#include <vector>

namespace paceline::gpu {

/// The arguments of `choose`, packed into one piece of memory in the layout of the kernels.
class choice_batch {
 public:
  /// Fails a check (PACELINE_CHECK) if the arguments violate a rule of the op.
  explicit choice_batch(const device::choose_args& args);

  const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  /// The kernels' view of a copy of `bytes` at `at`, a device address.
  choice_view view_at(const std::byte* at) const noexcept;
  /// True if any request has penalties, biases or removed tokens, so that logits must be changed before the
  /// choice.
  bool edits() const noexcept { return edits_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t requests_at_ = 0, rows_at_ = 0, tokens_at_ = 0, parents_at_ = 0;
  std::size_t biases_at_ = 0, counts_at_ = 0, removed_at_ = 0, paths_at_ = 0;
  bool edits_ = false;
};

} // namespace paceline::gpu
