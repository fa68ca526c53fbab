#pragma once

#include "gpu/owners.hpp"
#include "runtime/device/matrix.hpp"

#include <utility>

namespace paceline::gpu {

/// Weights on a GPU, in one of two layouts with the same values: rows as in the file, or the streaming order
/// (gpu/kernels/streamed_layout.hpp).
class cuda_matrix final : public device::matrix {
 public:
  cuda_matrix(const device_context& on, memory bytes, const weight_rows& rows)
      : on_(on), bytes_(std::move(bytes)), rows_(rows) {}
  /// `rows` has no bytes; `streamed` points into `bytes` and `multipliers`.
  cuda_matrix(const device_context& on, memory bytes, const weight_rows& rows, memory multipliers,
              const streamed_weights& streamed)
      : on_(on), bytes_(std::move(bytes)), multipliers_(std::move(multipliers)), rows_(rows),
        streamed_(streamed) {}

  device::tensor_type type() const noexcept override { return rows_.type; }
  std::uint32_t num_rows() const noexcept override { return rows_.num_rows; }
  std::uint32_t num_cols() const noexcept override { return rows_.num_cols; }
  std::uint64_t size_bytes() const noexcept override {
    return bytes_.size_bytes() + multipliers_.size_bytes();
  }

  /// Has no bytes if the weights are streamed.
  const weight_rows& rows() const noexcept { return rows_; }
  bool is_streamed() const noexcept { return streamed_.bytes != nullptr; }
  const streamed_weights& streamed() const noexcept { return streamed_; }
  /// The device that holds the weights.
  const device_context& on() const noexcept { return on_; }

 private:
  const device_context& on_;
  const memory bytes_;
  const memory multipliers_;
  const weight_rows rows_;
  const streamed_weights streamed_{};
};

} // namespace paceline::gpu
