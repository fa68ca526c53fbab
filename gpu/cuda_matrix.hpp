#pragma once

#include "gpu/owners.hpp"
#include "runtime/device/matrix.hpp"

#include <utility>

namespace paceline::gpu {

/// Weights on a GPU, as in the file. Kernels read them byte by byte; a layout that they read faster changes
/// neither values nor results.
class cuda_matrix final : public device::matrix {
 public:
  cuda_matrix(const device_context& on, memory bytes, const weight_rows& rows)
      : on_(on), bytes_(std::move(bytes)), rows_(rows) {}

  device::tensor_type type() const noexcept override { return rows_.type; }
  std::uint32_t num_rows() const noexcept override { return rows_.num_rows; }
  std::uint32_t num_cols() const noexcept override { return rows_.num_cols; }
  std::uint64_t size_bytes() const noexcept override { return bytes_.size_bytes(); }

  const weight_rows& rows() const noexcept { return rows_; }
  /// Of the device that has them.
  const device_context& on() const noexcept { return on_; }

 private:
  const device_context& on_;
  const memory bytes_;
  const weight_rows rows_;
};

} // namespace paceline::gpu
