#include "runtime/base/ids.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>

namespace paceline {
namespace {

TEST(ids, kinds_do_not_convert_into_each_other) {
  EXPECT_FALSE((std::is_convertible_v<token_id, block_id>));
  EXPECT_FALSE((std::is_convertible_v<int, token_id>));
  EXPECT_FALSE((std::is_constructible_v<kv_slot, token_position>));
}

/// In each of these numbers, zero has a meaning.
TEST(ids, numbers_of_models_drafters_and_pools_are_not_exchanged) {
  EXPECT_FALSE((std::is_convertible_v<std::uint32_t, drafter_index>));
  EXPECT_FALSE((std::is_convertible_v<drafter_index, std::uint32_t>));
  EXPECT_FALSE((std::is_constructible_v<drafter_index, pool_number>));
  EXPECT_FALSE((std::is_constructible_v<pool_number, model_number>));
  EXPECT_FALSE((std::is_constructible_v<model_number, drafter_index>));
}

TEST(ids, positions_advance) {
  EXPECT_EQ(token_position{5} + 3, token_position{8});
  EXPECT_LT(token_position{5}, token_position{6});
}

} // namespace
} // namespace paceline
