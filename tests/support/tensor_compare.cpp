#include "tests/support/tensor_compare.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

namespace paceline::test {

namespace {

constexpr std::size_t num_guards = 32;
constexpr std::uint32_t guard_bits = 0xfeedbeef;

/// Conditions under which a comparison means nothing.
std::optional<std::string> unfit(std::span<const float> expected, std::span<const float> actual) {
  if (expected.empty()) return "nothing to compare: the expected values are empty";
  if (expected.size() != actual.size())
    return "expected " + std::to_string(expected.size()) + " values, got " + std::to_string(actual.size());
  if (expected.data() < actual.data() + actual.size() && actual.data() < expected.data() + expected.size())
    return "expected and actual values share memory";
  return std::nullopt;
}

std::string at(std::size_t i, float expected, float actual) {
  char text[128];
  std::snprintf(text, sizeof text, "element %zu: expected %.9g (%a), got %.9g (%a)", i,
                static_cast<double>(expected), static_cast<double>(expected), static_cast<double>(actual),
                static_cast<double>(actual));
  return text;
}

} // namespace

testing::AssertionResult same_bits(std::span<const float> expected, std::span<const float> actual) {
  if (const auto reason = unfit(expected, actual)) return testing::AssertionFailure() << *reason;
  std::size_t num_different = 0, first = 0;
  for (std::size_t i = expected.size(); i-- > 0;) {
    const bool equal = std::bit_cast<std::uint32_t>(expected[i]) == std::bit_cast<std::uint32_t>(actual[i]);
    if (equal && !std::isnan(expected[i])) continue;
    ++num_different;
    first = i;
  }
  if (num_different == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << num_different << " of " << expected.size()
                                     << " values differ or are NaN; "
                                     << at(first, expected[first], actual[first]);
}

testing::AssertionResult within(std::span<const float> expected, std::span<const float> actual,
                                double absolute, double relative) {
  if (const auto reason = unfit(expected, actual)) return testing::AssertionFailure() << *reason;
  if (!(absolute >= 0 && relative >= 0 && std::isfinite(absolute) && std::isfinite(relative)))
    return testing::AssertionFailure() << "the tolerance is not a finite number >= 0";
  double worst_excess = 0;
  std::optional<std::size_t> worst;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i], a = actual[i];
    if (std::isnan(e) || std::isnan(a))
      return testing::AssertionFailure() << "NaN, " << at(i, expected[i], actual[i]);
    if (std::isinf(e) || std::isinf(a)) {
      if (e == a) continue;
      return testing::AssertionFailure() << "infinity, " << at(i, expected[i], actual[i]);
    }
    const double excess = std::fabs(a - e) - (absolute + relative * std::fabs(e));
    if (excess > 0 && excess >= worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (!worst) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "beyond the tolerance by " << worst_excess << ", "
                                     << at(*worst, expected[*worst], actual[*worst]);
}

guarded_floats::guarded_floats(std::size_t size, std::size_t misalignment) : size_(size), begin_(0) {
  constexpr std::size_t line_floats = 16;
  storage_.assign(num_guards + line_floats + misalignment + size + num_guards,
                  std::bit_cast<float>(guard_bits));
  begin_ = num_guards;
  while (reinterpret_cast<std::uintptr_t>(storage_.data() + begin_) % 64 != 0) ++begin_;
  begin_ += misalignment;
}

testing::AssertionResult guarded_floats::intact() const {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    if (i >= begin_ && i < begin_ + size_) continue;
    if (std::bit_cast<std::uint32_t>(storage_[i]) == guard_bits) continue;
    return testing::AssertionFailure()
           << "wrote outside the buffer, at element "
           << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(begin_) << " of " << size_;
  }
  return testing::AssertionSuccess();
}

} // namespace paceline::test
