#include "runtime/cpu/weight_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace paceline::cpu {
namespace {

TEST(weight_arena, pieces_are_zeroed_aligned_and_apart) {
  weight_arena arena;
  const std::vector<std::size_t> sizes{1, 64, 100, 3 << 20, 40 << 20, 65, 0};
  std::vector<std::shared_ptr<std::byte[]>> pieces;
  for (const std::size_t size : sizes) {
    pieces.push_back(arena.allocate(size));
    ASSERT_NE(pieces.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().get()) % 64, 0U);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::span<std::byte> bytes(pieces[i].get(), sizes[i]);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; })) << "piece " << i;
    std::ranges::fill(bytes, std::byte{0xff}); // so that an overlap would be visible
  }
}

TEST(weight_arena, pieces_outlive_it) {
  std::shared_ptr<std::byte[]> piece;
  {
    weight_arena arena;
    piece = arena.allocate(1000);
  }
  std::fill_n(piece.get(), 1000, std::byte{1});
  EXPECT_EQ(piece[999], std::byte{1});
}

TEST(weight_arena, what_cannot_be_had_is_null) {
  weight_arena arena;
  EXPECT_EQ(arena.allocate(std::numeric_limits<std::size_t>::max()), nullptr);
  EXPECT_EQ(arena.allocate(std::size_t{1} << 60), nullptr);
  EXPECT_NE(arena.allocate(64), nullptr) << "the arena goes on";
}

} // namespace
} // namespace paceline::cpu
