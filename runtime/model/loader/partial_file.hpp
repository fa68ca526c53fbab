#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace paceline::model {

/// A regular file that is read in parts, each when it is asked for, into an address range as long as the
/// file: what was read has an address that stays, and what was not takes no memory. It is read, not mapped: a
/// file that is cut short meanwhile, or whose disk fails, is an error here and no signal
/// (docs/decisions/0536).
class partial_file {
 public:
  /// Fails with `not_found` when there is no such file, `invalid_file` when it is empty or not a regular
  /// file.
  static expected<std::shared_ptr<const partial_file>> open(const std::filesystem::path& path);

  partial_file(const partial_file&) = delete;
  partial_file& operator=(const partial_file&) = delete;
  ~partial_file();

  /// The whole range. Bytes that were not read, or were released since, are zero.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Reads the bytes of `part` from the file, again if they were read before; a part that is not of this
  /// file's range is left alone. Fails with `invalid_file`, naming the file. Thread-safe for parts that do
  /// not overlap.
  expected<void> read(std::span<const std::byte> part) const;

  /// Takes the whole pages of `part`, if it lies in the range, out of memory: what has been copied should not
  /// count twice.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  partial_file(std::filesystem::path path, int fd, std::span<std::byte> bytes)
      : path_(std::move(path)), fd_(fd), bytes_(bytes) {}
  bool holds(std::span<const std::byte> part) const noexcept;

  const std::filesystem::path path_;
  const int fd_;
  const std::span<std::byte> bytes_;
};

} // namespace paceline::model
