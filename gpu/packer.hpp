#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace paceline::gpu {

/// Clears a buffer and appends arrays to it, each at a multiple of its alignment.
class packer {
 public:
  explicit packer(std::vector<std::byte>& bytes) : bytes_(bytes) { bytes_.clear(); }

  /// Appends `values` and returns their offset in bytes. `alignment` is in bytes.
  template <class T>
  std::size_t add(std::span<const T> values, std::size_t alignment = 64) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size_bytes());
    return at;
  }
  template <class T>
  std::size_t add(const std::vector<T>& values) {
    return add(std::span<const T>(values));
  }

 private:
  std::vector<std::byte>& bytes_;
};

} // namespace paceline::gpu
