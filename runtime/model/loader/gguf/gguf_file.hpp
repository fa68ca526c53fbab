#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/tensor_type.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"
#include "runtime/model/loader/partial_file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

/// One tensor of a GGUF file. Points into the file's address range.
struct gguf_tensor {
  std::string_view name;
  std::span<const std::byte> data; ///< exactly the bytes implied by type and shape; must be read before use
  std::array<std::uint64_t, 4> shape{1, 1, 1, 1}; ///< GGUF's order: values of a row first, then rows
  std::uint32_t num_dims = 1;                     ///< 1 to 4
  device::tensor_type type = device::tensor_type::f32;
  /// Not 0: the values are integers (I32 or I64) of this many bytes, and `type` has no meaning.
  std::uint8_t integer_bytes = 0;
};

/// A GGUF file of version 2 or 3 whose header was read and checked completely: a value of this class has only
/// valid sizes, offsets and types. Copies share the file. All views it returns live as long as any copy.
///
/// Checked in addition to the format itself: The rest of the file is long enough for every count and length
/// that the file states; this is checked before memory is allocated, so no allocation exceeds four times the
/// rest of the file. Keys and tensor names are unique. The alignment is a power of two. Rows consist of whole
/// blocks. Tensors are aligned, inside the file and disjoint.
class gguf_file {
 public:
  /// Opens `path`; for a split model all parts, found by their names ("x-00001-of-00003.gguf"). The metadata
  /// comes from the first part, the tensors come from all parts. Errors: those of `partial_file::open`,
  /// `invalid_file`, and `unsupported` for a version or tensor type that is not supported.
  static expected<gguf_file> open(const std::filesystem::path& path);

  /// Parses one file in memory, called `name` in errors. `bytes` must outlive the result. Parts of a split
  /// model are refused.
  static expected<gguf_file> parse(std::span<const std::byte> bytes, std::string name);

  std::uint32_t version() const noexcept { return version_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; } ///< of all parts
  std::uint32_t num_parts() const noexcept { return num_parts_; }
  const std::string& name() const noexcept { return metadata_.file_name(); }
  const gguf_metadata& metadata() const noexcept { return metadata_; }
  std::span<const gguf_tensor> tensors() const noexcept { return tensors_; } ///< in file order
  /// Null if there is no tensor of that name.
  const gguf_tensor* find_tensor(std::string_view name) const noexcept;
  /// The files of all parts, which read the tensors' bytes. Holding them keeps bytes and names valid without
  /// this object. Empty if the bytes were in memory.
  const std::vector<std::shared_ptr<const partial_file>>& files() const noexcept { return files_; }

 private:
  friend class gguf_parser;

  gguf_file() = default;
  /// Sorts the name index; fails if a tensor occurs twice.
  expected<void> index_tensors();
  void append_part(gguf_file part);

  std::uint32_t version_ = 0;
  std::uint32_t num_parts_ = 1;
  std::uint64_t file_bytes_ = 0;
  gguf_metadata metadata_;
  std::vector<gguf_tensor> tensors_;
  std::vector<std::uint32_t> by_name_; ///< indices of tensors_, ascending by name
  std::vector<std::shared_ptr<const partial_file>> files_;
};

} // namespace paceline::model
