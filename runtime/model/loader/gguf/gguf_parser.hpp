#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

/// Reads one GGUF file from front to back. Each step checks that its bytes are present before it reads them.
///
/// Layout: "GGUF" | u32 version | u64 tensors | u64 keys | keys | tensor infos | padding | tensor data.
/// Key: string name | u32 type | value. String: u64 length | bytes. Array: u32 element type | u64 count |
/// elements. Tensor info: string name | u32 dims | u64 per dim | u32 type | u64 offset in the tensor data.
class gguf_parser {
 public:
  static expected<gguf_file> parse(std::span<const std::byte> bytes, std::string name);
  static expected<gguf_file> parse(std::shared_ptr<const partial_file> from, std::string name);

 private:
  /// Offset and size of a tensor's data. The offset is relative to the data section, whose position is not
  /// known yet.
  struct pending_tensor {
    std::uint64_t offset = 0;
    std::uint64_t num_bytes = 0;
  };

  gguf_parser(std::span<const std::byte> bytes, std::string name);

  expected<void> run();
  expected<void> read_header();
  expected<void> read_entries();
  expected<gguf_entry> read_entry(std::uint64_t index);
  expected<void> read_array(gguf_entry& entry);
  expected<void> index_entries();
  expected<void> read_tensors();
  expected<std::pair<gguf_tensor, pending_tensor>> read_tensor(std::uint64_t index);
  expected<void> place_tensors();
  expected<std::uint64_t> alignment() const;

  /// True if `num_bytes` more bytes exist. If the bytes are in a file and not in memory, reads them.
  bool fetch(std::uint64_t num_bytes) noexcept;
  std::uint64_t remaining() const noexcept { return bytes_.size() - position_; }
  template <class T>
  std::optional<T> read_number() noexcept;
  std::optional<std::string_view> read_string() noexcept;
  error failure(const std::string& rule, errc code = errc::invalid_file) const;

  std::span<const std::byte> bytes_;
  const partial_file* from_ = nullptr; ///< null if all bytes are in memory
  std::uint64_t fetched_ = 0;          ///< bytes read of `from_`
  std::optional<error> unread_;        ///< why bytes in the file could not be read
  std::uint64_t position_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_entries_ = 0;
  std::vector<pending_tensor> pending_; ///< parallel to file_.tensors_
  gguf_file file_;
};

} // namespace paceline::model
