#pragma once

#include "gpu/kernels/expert_params.hpp"
#include "gpu/owners.hpp"
#include "runtime/base/check.hpp"
#include "runtime/device/matrix.hpp"

#include <deque>
#include <string>
#include <utility>

namespace paceline::gpu {

/// Weights on a GPU, in one of two layouts with the same values: rows as in the file, or the streaming order
/// (gpu/kernels/streamed_layout.hpp).
class cuda_matrix final : public device::matrix {
 public:
  cuda_matrix(const device_context& on, memory bytes, const weight_rows& rows)
      : on_(on), bytes_(std::move(bytes)), rows_(rows), size_bytes_(bytes_.size_bytes()) {}
  /// `rows` has no bytes; `streamed` points into `bytes` and `multipliers`.
  cuda_matrix(const device_context& on, memory bytes, const weight_rows& rows, memory multipliers,
              const streamed_weights& streamed)
      : on_(on), bytes_(std::move(bytes)), multipliers_(std::move(multipliers)), rows_(rows),
        streamed_(streamed), size_bytes_(bytes_.size_bytes() + multipliers_.size_bytes()) {}
  /// A view of `size_bytes` bytes of memory that another object owns.
  cuda_matrix(const device_context& on, std::uint64_t size_bytes, const weight_rows& rows,
              const streamed_weights& streamed)
      : on_(on), rows_(rows), streamed_(streamed), size_bytes_(size_bytes) {}

  device::tensor_type type() const noexcept override { return rows_.type; }
  std::uint32_t num_rows() const noexcept override { return rows_.num_rows; }
  std::uint32_t num_cols() const noexcept override { return rows_.num_cols; }
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }

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
  const std::uint64_t size_bytes_;
};

/// Matrices at equal distances in memory, so that a kernel finds one by its number.
class cuda_matrix_set final : public device::matrix_set {
 public:
  /// `all` are views of `bytes` and `multipliers`.
  cuda_matrix_set(memory bytes, memory multipliers, std::deque<cuda_matrix> all,
                  const matrix_strides& strides)
      : bytes_(std::move(bytes)), multipliers_(std::move(multipliers)), all_(std::move(all)),
        strides_(strides) {}

  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(all_.size()); }
  const cuda_matrix& at(std::uint32_t index) const override {
    PACELINE_CHECK(index < all_.size(), "no matrix " + std::to_string(index));
    return all_[index];
  }
  /// Distances from one matrix to the next.
  const matrix_strides& strides() const noexcept { return strides_; }
  const device_context& on() const noexcept { return all_[0].on(); }

 private:
  const memory bytes_;
  const memory multipliers_;
  const std::deque<cuda_matrix> all_;
  const matrix_strides strides_;
};

} // namespace paceline::gpu
