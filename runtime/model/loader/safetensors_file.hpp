#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"
#include "runtime/model/loader/partial_file.hpp"
#include "runtime/model/loader/safetensors_header.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::model {

/// One tensor of a safetensors file. `data` points into the file's address range, must be read before use and
/// has no particular alignment.
struct safetensors_tensor {
  std::string name;
  safetensors_shape shape{1, 1, 1, 1, 1}; ///< [num_dims]
  std::uint32_t num_dims = 0;
  device::tensor_type type = device::tensor_type::f32; ///< F32, F16, BF16, or F8_E4M3: codes without scales
  /// not 0: the values are integers (I64 or BOOL) of this many bytes, and `type` has no meaning
  std::uint8_t integer_bytes = 0;
  std::span<const std::byte> data;
};

/// A safetensors file whose header was read and checked completely. Layout: u64 header length | JSON header |
/// tensor data.
///
/// Rules in addition to the format's (each closes a vulnerability known from audits of loaders): a header of
/// at most 100 MB that lies inside the file and begins with '{'; no key twice; dtypes F32, F16, BF16,
/// F8_E4M3, I64, BOOL; at most 5 dimensions; each span exactly as long as dtype and shape imply; spans
/// contiguous from 0 to the end of the file, without gap or overlap.
class safetensors_file {
 public:
  static expected<safetensors_file> open(const std::filesystem::path& path);
  /// Parses a file in memory, called `name` in errors. `bytes` must outlive the result.
  static expected<safetensors_file> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const noexcept { return name_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::span<const safetensors_tensor> tensors() const noexcept {
    return tensors_;
  } ///< in order of their data
  /// The file from which the tensors' bytes are read. Holding it keeps these bytes valid after this object is
  /// destroyed. Null if the bytes were in memory.
  const std::shared_ptr<const partial_file>& from() const noexcept { return from_; }

 private:
  safetensors_file() = default;

  std::string name_;
  std::uint64_t file_bytes_ = 0;
  std::vector<safetensors_tensor> tensors_;
  std::shared_ptr<const partial_file> from_;
};

} // namespace paceline::model
