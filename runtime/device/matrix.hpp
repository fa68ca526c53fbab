#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace paceline::device {

/// A matrix as a model file stores it: `num_rows` rows of `num_cols` values, one after the other.
struct tensor_view {
  tensor_type type = tensor_type::f32;
  std::uint64_t num_rows = 0;
  std::uint64_t num_cols = 0;       ///< whole blocks of `type`
  std::span<const std::byte> bytes; ///< exactly num_rows * num_cols / block_values * block_bytes
};

/// Weights in the layout a device reads fastest. Opaque and constant; shared by all streams of its device.
/// One matrix serves `matmul` and `embed` alike, so a tied embedding is stored once.
class matrix {
 public:
  virtual ~matrix() = default;
  virtual tensor_type type() const noexcept = 0;
  virtual std::uint32_t num_rows() const noexcept = 0;
  virtual std::uint32_t num_cols() const noexcept = 0;
  /// Bytes it occupies: close to those of the file.
  virtual std::uint64_t size_bytes() const noexcept = 0;
};

/// Hears of bytes that have been copied.
using bytes_done = std::function<void(std::span<const std::byte>)>;

/// Makes bytes readable, if they are not; its failure is that of whoever needs them.
using bytes_needed = std::function<expected<void>(std::span<const std::byte>)>;

/// Where a device keeps weights.
class weight_memory {
 public:
  virtual ~weight_memory() = default;

  /// Copies `tensor` into the device's layout, with the values unchanged. The bytes are read once, in order,
  /// and are not needed afterwards. Fails with `invalid_file` for sizes that break the format's rules and
  /// with `resource_exhausted`; `name` is the tensor's, for the message. Thread-safe.
  ///
  /// `done`, when there is one, is called with each part of the bytes that has been copied, so that what a
  /// large tensor was read from need not stay in memory until its end. `needed`, when there is one, is called
  /// with each part before it is read, and ends the packing if it fails.
  virtual expected<std::unique_ptr<const matrix>> pack(std::string_view name, const tensor_view& tensor,
                                                       const bytes_done& done = {},
                                                       const bytes_needed& needed = {}) = 0;
};

} // namespace paceline::device
