#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace paceline::test {

/// True if `actual` has the bits of `expected`. Fails for buffers that are empty, of different sizes or the
/// same memory, and for NaNs on either side, because a comparison of NaNs proves nothing. Reports the first
/// difference.
testing::AssertionResult same_bits(std::span<const float> expected, std::span<const float> actual);

/// True if |actual - expected| <= absolute + relative * |expected| everywhere. Fails for empty, unequally
/// long or shared buffers, for NaN on either side, for different infinities, and for a tolerance that is
/// negative or not finite. Reports the worst element.
testing::AssertionResult within(std::span<const float> expected, std::span<const float> actual,
                                double absolute, double relative);

/// Floats with guard bytes on both sides; `values` starts `misalignment` floats after a cache line boundary.
class guarded_floats {
 public:
  explicit guarded_floats(std::size_t size, std::size_t misalignment = 0);

  std::span<float> values() noexcept { return {storage_.data() + begin_, size_}; }
  float* data() noexcept { return storage_.data() + begin_; }

  /// True if nothing outside `values` was written.
  testing::AssertionResult intact() const;

 private:
  std::size_t size_;
  std::size_t begin_;
  std::vector<float> storage_;
};

} // namespace paceline::test
