#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::wire {

/// A text that is generated piece by piece while it is sent, so that it never exists as a whole. Not
/// thread-safe.
class text_source {
 public:
  text_source() = default;
  virtual ~text_source() = default;
  text_source(const text_source&) = delete;
  text_source& operator=(const text_source&) = delete;

  /// The next piece, of about `num_bytes` bytes. It is shorter only at the end of the text, and empty only
  /// after the end.
  virtual std::string next(std::size_t num_bytes) = 0;
  virtual bool at_end() const noexcept = 0;

  /// Bytes of memory that the source needs for the rest of the text, without shared parts. Decreases while
  /// the source is read.
  virtual std::size_t num_bytes() const noexcept = 0;
  struct shared_part {
    const void* identity = nullptr; ///< equal for all sources that share the part
    std::size_t num_bytes = 0;
  };
  /// The memory that the source shares with other sources. It is held for as long as the source exists.
  virtual std::vector<shared_part> shared() const { return {}; }
};

} // namespace paceline::wire
