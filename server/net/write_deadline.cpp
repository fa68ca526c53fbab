#include "server/net/write_deadline.hpp"

#include <algorithm>

namespace paceline::server {

void write_deadline::begin(time_point now, std::uint64_t taken) {
  seen_at_ = now;
  taken_ = taken;
  credit_ = patience_;
}

bool write_deadline::observe(time_point now, std::uint64_t taken) {
  const auto fresh = taken > taken_ ? taken - taken_ : 0;
  // More than a gigabyte earns no more patience. The bound prevents an overflow of the product.
  const auto bytes = std::min<std::uint64_t>(fresh, 1ULL << 30U);
  const auto earned = std::chrono::duration_cast<duration>(std::chrono::nanoseconds(
      static_cast<std::int64_t>(bytes * 1'000'000'000ULL / std::max<std::uint64_t>(min_rate_, 1))));
  credit_ = std::min(patience_, credit_ - (now - seen_at_) + earned);
  seen_at_ = now;
  taken_ = std::max(taken, taken_);
  return credit_ > duration::zero();
}

} // namespace paceline::server
