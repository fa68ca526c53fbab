#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace paceline::model {

/// A regular file that is read in parts, on demand, into an address range as long as the file. Addresses of
/// bytes never change, and bytes that were not read take no memory. The file is read and not mapped, so a
/// file that is truncated meanwhile, or a failing disk, causes an error instead of a signal (SIGBUS;
/// docs/decisions/0536).
class partial_file {
 public:
  /// Errors: `not_found`; `invalid_file` if it is unreadable, empty or not a regular file;
  /// `resource_exhausted`.
  static expected<std::shared_ptr<const partial_file>> open(const std::filesystem::path& path);

  partial_file(const partial_file&) = delete;
  partial_file& operator=(const partial_file&) = delete;
  ~partial_file();

  /// The whole range. Bytes that were not read, or were released since, are zero.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Reads the bytes of `part` from the file, even if they were read before. A part outside this file's range
  /// is ignored. Error: `invalid_file`, naming the file. Thread-safe for disjoint parts.
  expected<void> read(std::span<const std::byte> part) const;

  /// Frees the memory of the pages that lie entirely in `part`, so that copied data is not in memory twice. A
  /// part outside this file's range is ignored.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  partial_file(std::filesystem::path path, int fd, std::span<std::byte> bytes)
      : path_(std::move(path)), fd_(fd), bytes_(bytes) {}
  bool holds(std::span<const std::byte> part) const noexcept;

  const std::filesystem::path path_;
  const int fd_;
  const std::span<std::byte> bytes_;
};

/// Bytes in a file; in memory if `from` is null.
struct file_bytes {
  std::span<const std::byte> data;
  std::shared_ptr<const partial_file> from;
};

/// True if both have the same bytes. Reads a part at a time and releases it after the comparison. Error: a
/// file cannot be read.
expected<bool> are_equal(const file_bytes& a, const file_bytes& b);

} // namespace paceline::model
