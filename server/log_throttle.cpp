#include "server/log_throttle.hpp"

#include <utility>

namespace paceline::server {

std::optional<std::uint64_t> log_throttle::note(time_point now) {
  ++since_line_;
  if (last_line_ && now - *last_line_ < interval_) return std::nullopt;
  last_line_ = now;
  return std::exchange(since_line_, 0);
}

} // namespace paceline::server
