#include "runtime/base/ids.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace paceline {
namespace {

TEST(ids, kinds_do_not_convert_into_each_other) {
  EXPECT_FALSE((std::is_convertible_v<token_id, block_id>));
  EXPECT_FALSE((std::is_convertible_v<int, token_id>));
  EXPECT_FALSE((std::is_constructible_v<kv_slot, token_position>));
}

TEST(ids, positions_advance) {
  EXPECT_EQ(token_position{5} + 3, token_position{8});
  EXPECT_LT(token_position{5}, token_position{6});
}

} // namespace
} // namespace paceline
