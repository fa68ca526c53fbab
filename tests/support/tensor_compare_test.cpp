#include "tests/support/tensor_compare.hpp"

#include <cmath>
#include <limits>

namespace paceline::test {
namespace {

using values = std::vector<float>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

TEST(same_bits, accepts_equal_values_in_different_memory) {
  EXPECT_TRUE(same_bits(values{1, -2, inf}, values{1, -2, inf}));
}

TEST(same_bits, rejects_what_differs_in_one_bit) {
  EXPECT_FALSE(same_bits(values{1, 2}, values{1, std::nextafter(2.0f, 3.0f)}));
  EXPECT_FALSE(same_bits(values{0.0f}, values{-0.0f}));
  EXPECT_FALSE(same_bits(values{inf}, values{-inf}));
}

TEST(same_bits, rejects_nan_even_where_it_is_expected) {
  EXPECT_FALSE(same_bits(values{nan}, values{nan}));
  EXPECT_FALSE(same_bits(values{1}, values{nan}));
}

TEST(same_bits, rejects_comparisons_that_prove_nothing) {
  const values x{1, 2, 3};
  EXPECT_FALSE(same_bits({}, {}));
  EXPECT_FALSE(same_bits(x, values{1, 2}));
  EXPECT_FALSE(same_bits(x, x));
  EXPECT_FALSE(same_bits(std::span(x).first(2), std::span(x).last(2)));
}

TEST(within, accepts_differences_up_to_the_tolerance) {
  EXPECT_TRUE(within(values{100, -100}, values{101, -101}, 0, 0.0101));
  EXPECT_TRUE(within(values{0}, values{0.5f}, 0.5, 0));
  EXPECT_TRUE(within(values{inf, -inf, 1}, values{inf, -inf, 1}, 0, 0));
}

TEST(within, rejects_differences_above_it_on_either_side_of_zero) {
  EXPECT_FALSE(within(values{100}, values{102}, 0, 0.0101));
  EXPECT_FALSE(within(values{-100}, values{-102}, 0, 0.0101));
  EXPECT_FALSE(within(values{-100}, values{-98}, 0, 0.0101));
  EXPECT_FALSE(within(values{-1}, values{1}, 0, 0.5));
}

TEST(within, rejects_nan_and_infinities_that_differ) {
  EXPECT_FALSE(within(values{1}, values{nan}, 10, 10));
  EXPECT_FALSE(within(values{nan}, values{1}, 10, 10));
  EXPECT_FALSE(within(values{nan}, values{nan}, 10, 10));
  EXPECT_FALSE(within(values{inf}, values{-inf}, 10, 10));
  EXPECT_FALSE(within(values{inf}, values{1}, 10, 10));
  EXPECT_FALSE(within(values{1}, values{-inf}, 10, 10));
}

TEST(within, rejects_comparisons_that_prove_nothing) {
  const values x{1, 2, 3};
  EXPECT_FALSE(within({}, {}, 1, 1));
  EXPECT_FALSE(within(x, values{1, 2}, 1, 1));
  EXPECT_FALSE(within(x, x, 1, 1));
  EXPECT_FALSE(within(values{1}, values{1}, nan, 0));
  EXPECT_FALSE(within(values{1}, values{1}, 0, inf));
  EXPECT_FALSE(within(values{1}, values{1}, -1, 0));
}

TEST(guarded_floats, notices_a_write_on_either_side) {
  for (const std::ptrdiff_t offset : {-1, 5, 20}) {
    guarded_floats buffer(5, 3);
    EXPECT_TRUE(buffer.intact());
    for (float& value : buffer.values()) value = 1;
    EXPECT_TRUE(buffer.intact());
    buffer.data()[offset] = 1;
    EXPECT_FALSE(buffer.intact());
  }
}

} // namespace
} // namespace paceline::test
