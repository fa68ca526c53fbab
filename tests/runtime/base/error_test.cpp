#include "runtime/base/check.hpp"
#include "runtime/base/expected.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace paceline {
namespace {

expected<int> half(int x) {
  if (x % 2 != 0) return error{errc::invalid_argument, "x: 3 is odd"};
  return x / 2;
}

TEST(expected, holds_the_value_or_the_error) {
  EXPECT_EQ(*half(8), 4);
  auto odd = half(3);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code(), errc::invalid_argument);
  EXPECT_EQ(odd.error().message(), "x: 3 is odd");
  EXPECT_THROW((void)odd.value(), std::bad_variant_access);
}

TEST(error, within_prefixes_the_place) {
  auto e = error{errc::invalid_file, "bad magic"}.within("model.gguf");
  EXPECT_EQ(e, (error{errc::invalid_file, "model.gguf: bad magic"}));
}

TEST(error, every_code_has_its_own_name) {
  std::set<std::string_view> names;
  for (int c = 1; c <= static_cast<int>(errc::state_slots_full); ++c)
    names.insert(to_string(static_cast<errc>(c)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(errc::state_slots_full));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(check, throws_with_expression_and_detail) {
  try {
    PACELINE_CHECK(1 + 1 == 3, "sum of ones");
    FAIL() << "did not throw";
  } catch (const check_failure& e) {
    EXPECT_NE(std::string(e.what()).find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("sum of ones"), std::string::npos);
  }
}

} // namespace
} // namespace paceline
