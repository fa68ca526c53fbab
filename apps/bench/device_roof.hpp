#pragma once

#include "runtime/base/expected.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace paceline::apps::bench {

/// The maximum rates of a device (the roof of a roofline model). They are sampled between the timed passes
/// with which they are compared.
class device_roof {
 public:
  virtual ~device_roof() = default;

  /// Measures once.
  virtual expected<void> sample() = 0;
  /// Median of the samples; at least one is required.
  virtual double read_bytes_per_second() const = 0;
  /// Median of the samples; 0 where it is not measured.
  virtual double multiply_adds_per_second() const { return 0; }
};

/// The roof of the device with the configured name. A CPU is measured with `num_threads` threads. A GPU is
/// measured by reading a sixteenth of its memory, at most 4 GiB. Error if there is no such device or not
/// enough memory.
expected<std::unique_ptr<device_roof>> roof_of(std::string_view name, std::uint32_t num_threads);

} // namespace paceline::apps::bench
