#include "runtime/kv/compaction.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace paceline::kv {
namespace {

const std::vector<block_id> blocks{block_id{7}, block_id{2}, block_id{5}};
constexpr std::uint32_t block_size = 4;

/// Contents of the table's slots after `copies`, if slot s held s before.
std::vector<std::uint32_t> carried_out(std::span<const device::kv_copy> copies) {
  std::vector<std::uint32_t> cells(8 * block_size);
  for (std::uint32_t s = 0; s < blocks.size() * block_size; ++s)
    cells[blocks[s / block_size].value * block_size + s % block_size] = s;
  for (const auto& c : copies) {
    // Like a device: all cells of one copy at once.
    const auto before = cells;
    for (std::uint32_t i = 0; i < c.num_cells; ++i)
      cells[c.to_block.value * block_size + c.to_offset + i] =
          before[c.from_block.value * block_size + c.from_offset + i];
  }
  std::vector<std::uint32_t> slots;
  for (std::uint32_t s = 0; s < blocks.size() * block_size; ++s)
    slots.push_back(cells[blocks[s / block_size].value * block_size + s % block_size]);
  return slots;
}

TEST(compaction_test, a_chain_needs_no_copy) {
  const std::vector path{kv_slot{5}, kv_slot{6}, kv_slot{7}};
  EXPECT_TRUE(compact_path(blocks, block_size, 5, path).empty());
}

TEST(compaction_test, any_accepted_path_ends_in_line) {
  constexpr std::uint32_t base = 3;
  constexpr std::uint32_t num_nodes = 9; // slots 3..11
  for (std::uint32_t chosen = 0; chosen < (1U << num_nodes); ++chosen) {
    std::vector<kv_slot> path;
    for (std::uint32_t i = 0; i < num_nodes; ++i)
      if (chosen >> i & 1) path.push_back(kv_slot{base + i});
    const auto copies = compact_path(blocks, block_size, base, path);
    const auto slots = carried_out(copies);
    for (std::uint32_t s = 0; s < base; ++s) ASSERT_EQ(slots[s], s);
    for (std::uint32_t i = 0; i < path.size(); ++i)
      ASSERT_EQ(slots[base + i], path[i].value) << "path " << chosen;
    for (const auto& c : copies) {
      ASSERT_LE(c.from_offset + c.num_cells, block_size);
      ASSERT_LE(c.to_offset + c.num_cells, block_size);
      const bool apart = c.from_block != c.to_block || c.to_offset + c.num_cells <= c.from_offset;
      ASSERT_TRUE(apart) << "a copy overlaps itself";
    }
  }
}

TEST(compaction_test, neighbours_move_together) {
  const std::vector path{kv_slot{8}, kv_slot{9}, kv_slot{10}, kv_slot{11}};
  const auto copies = compact_path(blocks, block_size, 4, path);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].num_cells, 4U);
}

TEST(compaction_test, a_path_that_is_not_one_is_a_programmer_error) {
  EXPECT_THROW(compact_path(blocks, block_size, 5, std::vector{kv_slot{4}}), check_failure);
  EXPECT_THROW(compact_path(blocks, block_size, 3, std::vector{kv_slot{6}, kv_slot{5}}), check_failure);
  EXPECT_THROW(compact_path(blocks, block_size, 3, std::vector{kv_slot{12}}), check_failure);
}

} // namespace
} // namespace paceline::kv
