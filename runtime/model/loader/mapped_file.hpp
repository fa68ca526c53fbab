#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace paceline::model {

/// A regular file mapped read-only for as long as the object lives. Pages are shared by all processes that
/// map the file, and are read when first touched. A file that is cut short while mapped ends the process
/// (SIGBUS), as with any mapped file: model files are replaced by renaming, never rewritten in place.
class mapped_file {
 public:
  /// Fails with `not_found` when there is no such file, `invalid_file` when it is empty or not a regular
  /// file.
  static expected<std::shared_ptr<const mapped_file>> open(const std::filesystem::path& path);

  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Takes the whole pages of `part`, if it lies in the file, out of this process's memory: what has been
  /// copied should not count twice. Read again, they come from the file again.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  explicit mapped_file(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

} // namespace paceline::model
