#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/weights/tensor_role.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace paceline::model {

struct scale_grid;

/// One tensor of a model. A matrix is an input of `weight_memory::pack`, and its bytes may be unaligned.
/// Other weights (not `is_matrix_role`) are F32, aligned for float. A vector is one row. The taps of a
/// convolution are [num_taps][channels].
struct weight_view {
  std::string_view name; ///< name in the file
  /// In the list of a file's tensors (`weights_source::make`), a tensor with three dimensions is given as one
  /// matrix: the rows of its first matrix, then those of the second, and so on.
  device::tensor_view tensor;
  /// For F8_E4M3: the bytes of `tensor` are codes only, and `f8_blocks` makes the tensor to be packed.
  const scale_grid* scales = nullptr;
  std::uint64_t num_matrices = 1; ///< number of matrices in `tensor`

  /// Number of bytes to be given to `weight_memory::pack`.
  std::uint64_t stored_bytes() const noexcept {
    using device::f8_block;
    if (scales == nullptr) return tensor.bytes.size();
    return tensor.bytes.size() / f8_block::num_values * (f8_block::codes_at + f8_block::num_values);
  }

  bool empty() const noexcept { return tensor.bytes.empty(); }
  /// The values of a vector, or of taps.
  std::span<const float> floats() const noexcept {
    return {reinterpret_cast<const float*>(tensor.bytes.data()), tensor.num_rows * tensor.num_cols};
  }
};

} // namespace paceline::model
