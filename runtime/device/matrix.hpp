#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace paceline::device {

/// A matrix as stored in a model file: `num_rows` consecutive rows of `num_cols` values.
struct tensor_view {
  tensor_type type = tensor_type::f32;
  std::uint64_t num_rows = 0;
  std::uint64_t num_cols = 0;       ///< whole blocks of `type`
  std::span<const std::byte> bytes; ///< exactly num_rows * num_cols / block_values * block_bytes
};

/// Weights in the device's own layout. Opaque and immutable; shared by all streams of its device. The same
/// matrix serves `matmul` and `embed`, so a tied embedding is stored once.
class matrix {
 public:
  virtual ~matrix() = default;
  virtual tensor_type type() const noexcept = 0;
  virtual std::uint32_t num_rows() const noexcept = 0;
  virtual std::uint32_t num_cols() const noexcept = 0;
  /// Bytes of memory; close to the size in the file.
  virtual std::uint64_t size_bytes() const noexcept = 0;
};

/// Matrices of one type and shape: those of a layer's experts. Opaque and immutable, like a matrix.
class matrix_set {
 public:
  virtual ~matrix_set() = default;
  virtual std::uint32_t size() const noexcept = 0;
  /// The matrix of expert `index` < size().
  virtual const matrix& at(std::uint32_t index) const = 0;
  std::uint64_t size_bytes() const noexcept { return size() * at(0).size_bytes(); }
};

/// Throws check_failure unless there is at least one matrix and all have the same type and shape.
void check_set(std::string_view name, std::span<const std::unique_ptr<const matrix>> matrices);

/// Called with bytes that have been copied.
using bytes_done = std::function<void(std::span<const std::byte>)>;

/// Called with bytes before they are read; makes them available. Its error ends the packing.
using bytes_needed = std::function<expected<void>(std::span<const std::byte>)>;

/// The memory in which a device stores weights.
class weight_memory {
 public:
  virtual ~weight_memory() = default;

  /// Copies `tensor` into the device's layout, with unchanged values. Reads the bytes once, in order; they
  /// are not needed afterwards. Errors: `invalid_file` for sizes that violate the format, and
  /// `resource_exhausted`. `name` is the tensor's name for messages. Thread-safe.
  ///
  /// `done`, if set, is called with each part of the bytes that has been copied, so that the source of a
  /// large tensor can be released early. `needed`, if set, is called with each part before it is read; its
  /// error ends the packing.
  virtual expected<std::unique_ptr<const matrix>> pack(std::string_view name, const tensor_view& tensor,
                                                       const bytes_done& done = {},
                                                       const bytes_needed& needed = {}) = 0;

  /// Makes a set of matrices that `pack` has made: at least one, all of the same type and shape
  /// (`check_set`). Error: `unsupported`, if the device does not support sets of this type or shape.
  virtual expected<std::unique_ptr<const matrix_set>>
  make_set(std::string_view name, std::vector<std::unique_ptr<const matrix>> matrices);
};

} // namespace paceline::device
