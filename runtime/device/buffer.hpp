#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace paceline::device {

/// A piece of a device's memory, with unspecified contents until written. `data` is a device address for ops;
/// the host must not access it unless the device is the host.
class buffer {
 public:
  virtual ~buffer() = default;
  virtual std::byte* data() noexcept = 0;
  virtual std::uint64_t size_bytes() const noexcept = 0;
  /// Copies host bytes to `offset` before it returns; offset + bytes.size() <= size_bytes().
  virtual void upload(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Sets `num_bytes` bytes from `offset` on before it returns; offset + num_bytes <= size_bytes().
  virtual void fill(std::uint64_t offset, std::uint64_t num_bytes, std::byte value) = 0;
};

/// Allocates device memory for everything, such as KV pools and norms, except packed weights (weight_memory)
/// and the scratch memory of a pass. Must outlive its buffers. Thread-safe.
class buffer_memory {
 public:
  virtual ~buffer_memory() = default;
  /// Aligned to 64 bytes. Throws std::bad_alloc.
  virtual std::unique_ptr<buffer> allocate(std::uint64_t num_bytes) = 0;
};

} // namespace paceline::device
