#pragma once

#include "runtime/base/expected.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace paceline::apps::bench {

/// What a device gives at most, measured between the passes that are compared with it.
class device_roof {
 public:
  virtual ~device_roof() = default;

  /// Measures once.
  virtual expected<void> sample() = 0;
  /// Median of the samples, of which there is one at least.
  virtual double read_bytes_per_second() const = 0;
  /// Likewise; 0 where it is not measured.
  virtual double multiply_adds_per_second() const { return 0; }
};

/// Of the device that configurations call `name`. On CPUs so many threads measure; a GPU reads its own
/// memory, of which it takes a sixteenth, 4 GiB at most. Fails where there is no such device, or it has no
/// room.
expected<std::unique_ptr<device_roof>> roof_of(std::string_view name, std::uint32_t num_threads);

} // namespace paceline::apps::bench
