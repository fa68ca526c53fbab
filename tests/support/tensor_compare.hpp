#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace paceline::testing_support {

/// Whether `actual` has the bits of `expected`. Fails for buffers that are empty, of different sizes or the
/// same memory, and for NaNs on either side: a NaN that equals itself proves nothing. Tells the first
/// difference.
testing::AssertionResult same_bits(std::span<const float> expected, std::span<const float> actual);

/// Whether |actual - expected| <= absolute + relative * |expected| everywhere. Fails for empty, unequally
/// long or shared buffers, for NaN on either side, for infinities that differ, and for a tolerance that is
/// negative or not finite. Tells the worst element.
testing::AssertionResult within(std::span<const float> expected, std::span<const float> actual,
                                double absolute, double relative);

/// Floats with guard bytes on both sides; `values` starts `misalignment` floats off a cache line.
class guarded_floats {
 public:
  explicit guarded_floats(std::size_t size, std::size_t misalignment = 0);

  std::span<float> values() noexcept { return {storage_.data() + begin_, size_}; }
  float* data() noexcept { return storage_.data() + begin_; }

  /// Whether nothing outside `values` has been written.
  testing::AssertionResult intact() const;

 private:
  std::size_t size_;
  std::size_t begin_;
  std::vector<float> storage_;
};

} // namespace paceline::testing_support
