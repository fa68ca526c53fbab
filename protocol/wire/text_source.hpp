#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::wire {

/// A text that is made piece by piece while it is sent, so that it never exists as a whole. Not thread-safe.
class text_source {
 public:
  text_source() = default;
  virtual ~text_source() = default;
  text_source(const text_source&) = delete;
  text_source& operator=(const text_source&) = delete;

  /// The next piece: about `num_bytes`; less only at the end. Empty only when all was given.
  virtual std::string next(std::size_t num_bytes) = 0;
  virtual bool at_end() const noexcept = 0;

  /// What it keeps to make the rest of its text of, besides what it shares. Less and less as it is read.
  virtual std::size_t num_bytes() const noexcept = 0;
  struct shared_part {
    const void* identity = nullptr; ///< the same for all who share it
    std::size_t num_bytes = 0;
  };
  /// What it reads together with other sources, for as long as it exists.
  virtual std::vector<shared_part> shared() const { return {}; }
};

} // namespace paceline::wire
