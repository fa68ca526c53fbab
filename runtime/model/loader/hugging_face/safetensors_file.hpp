#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"
#include "runtime/model/loader/hugging_face/safetensors_header.hpp"
#include "runtime/model/loader/partial_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::model {

/// One tensor of a safetensors file. `data` has no particular alignment. In a file made by `open` it lies in
/// `from()->bytes()`, and its bytes are valid only after `from()->read(data)`. In a file made by `parse` the
/// bytes are the caller's.
struct safetensors_tensor {
  std::string name;
  safetensors_shape shape{1, 1, 1, 1, 1}; ///< outermost first; 1 from `num_dims` on
  std::uint32_t num_dims = 0;
  /// f32, f16, bf16 or f8_e4m3 (codes; their scales are in another tensor).
  device::tensor_type type = device::tensor_type::f32;
  /// not 0: the values are integers (I64 or BOOL) of this many bytes, and `type` has no meaning
  std::uint8_t integer_bytes = 0;
  std::span<const std::byte> data;
};

/// A safetensors file whose header was read and checked completely. Layout: u64 header length | JSON header |
/// tensor data.
///
/// Checked, partly beyond the format: the header has at most 100,000,000 bytes, lies inside the file and
/// begins with '{'. No key occurs twice. Each dtype is F32, F16, BF16, F8_E4M3, I64 or BOOL. A tensor has at
/// most 5 dimensions, and exactly the bytes that dtype and shape imply. The data of all tensors fills the
/// part after the header without gap or overlap.
class safetensors_file {
 public:
  /// Reads the header only. Errors: `not_found`, `invalid_file`, `resource_exhausted`; `unsupported` for a
  /// dtype that is not listed above.
  static expected<safetensors_file> open(const std::filesystem::path& path);
  /// The same for a file whose bytes are in memory. Errors refer to it as `name`. `bytes` must outlive the
  /// result.
  static expected<safetensors_file> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::span<const safetensors_tensor> tensors() const noexcept {
    return tensors_;
  } ///< in order of their data
  /// The file from which the tensors' bytes are read. Holding it keeps these bytes valid after this object is
  /// destroyed. Null if the object was made by `parse`.
  const std::shared_ptr<const partial_file>& from() const noexcept { return from_; }

 private:
  safetensors_file() = default;

  std::string name_;
  std::uint64_t file_bytes_ = 0;
  std::vector<safetensors_tensor> tensors_;
  std::shared_ptr<const partial_file> from_;
};

} // namespace paceline::model
