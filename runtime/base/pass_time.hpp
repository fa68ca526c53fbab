#pragma once

#include <cstdint>

namespace paceline {

/// How long a pass of a model over `rows` rows took.
struct pass_time {
  std::uint32_t rows = 0;
  double nanoseconds = 0;
};

} // namespace paceline
