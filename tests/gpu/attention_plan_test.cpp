// How rows are divided into tiles that read keys and values together, and tiles into launches.
#include "gpu/attention_plan.hpp"
#include "tests/support/paged_sequences.hpp"

#include <gtest/gtest.h>

namespace paceline::gpu {
namespace {

using pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

constexpr attention_shape llama_8b{32, 8, 128, 0};

class attention_plan : public testing::Test {
 protected:
  attention_plan() {
    for (int i = 0; i < 3; ++i) paged_.add_sequence(1000);
  }

  void append(const std::vector<device::batch_entry>& some) {
    rows_.insert(rows_.end(), some.begin(), some.end());
  }
  pairs tiles(const attention_shape& shape) const {
    pairs out;
    for (const row_tile& tile : tile_rows(paged_.batch(rows_), shape))
      out.emplace_back(tile.first_row, tile.num_rows);
    return out;
  }

  test::paged_sequences paged_{16, 200, 0};
  std::vector<device::batch_entry> rows_;
};

TEST_F(attention_plan, eight_rows_of_a_sequence_and_the_heads_of_a_group_read_together) {
  append(paged_.chain_rows(0, 500, 519));
  EXPECT_EQ(heads_of_tile(llama_8b), 4U);
  EXPECT_EQ(tiles(llama_8b), (pairs{{0, 8}, {8, 8}, {16, 3}}));
}

TEST_F(attention_plan, rows_of_different_sequences_do_not) {
  append(paged_.chain_rows(0, 500, 502));
  append(paged_.chain_rows(1, 10, 11));
  append(paged_.chain_rows(2, 999, 1000));
  append(paged_.chain_rows(0, 502, 504));
  EXPECT_EQ(tiles(llama_8b), (pairs{{0, 2}, {2, 1}, {3, 1}, {4, 2}}));
}

TEST_F(attention_plan, paths_of_a_tile_fit_its_memory) {
  std::vector<std::int32_t> chain(80);
  for (int i = 0; i < 80; ++i) chain[i] = i - 1;
  append(paged_.tree_rows(0, 100, chain));
  const attention_shape one_head{1, 1, 64, 0};
  std::uint32_t next = 0;
  for (const auto& [first, num] : tiles(one_head)) {
    EXPECT_EQ(first, next);
    std::uint32_t cells = 0;
    for (std::uint32_t r = first; r < first + num; ++r) cells += rows_[r].path_length;
    EXPECT_TRUE(num == 1 || cells <= most_path_cells) << first;
    next += num;
  }
  EXPECT_EQ(next, 80U) << "every row is in a tile";
  EXPECT_EQ(tiles(one_head)[0], std::pair(0U, 10U)) << "paths of 1 to 10 cells are 55";
}

TEST_F(attention_plan, heads_that_do_not_fit_are_cut_into_equal_parts) {
  EXPECT_EQ(heads_of_tile({20, 1, 512, 0}), 10U);
  EXPECT_EQ(heads_of_tile({71, 1, 64, 0}), 24U);
  EXPECT_EQ(heads_of_tile({32, 1, 64, 0}), 32U);
  for (const attention_shape& shape : {attention_shape{20, 1, 512, 0}, {71, 1, 64, 0}, {6, 2, 256, 0}})
    EXPECT_LE(heads_of_tile(shape), tile_queries_for(shape.head_dim));
}

TEST_F(attention_plan, slices_cover_all_tiles_and_keep_to_their_bytes) {
  append(paged_.chain_rows(0, 0, 300));
  append(paged_.chain_rows(1, 990, 1000));
  const auto batch = paged_.batch(rows_);
  const auto tiles = tile_rows(batch, llama_8b);
  for (const std::size_t most_bytes : {std::size_t{1}, std::size_t{2} << 20, std::size_t{1} << 40}) {
    std::uint32_t next_tile = 0, next_row = 0;
    const auto slices = slice_tiles(batch, tiles, llama_8b, most_bytes);
    for (const tile_slice& slice : slices) {
      EXPECT_EQ(slice.first_tile, next_tile);
      EXPECT_EQ(slice.range.first_row, next_row);
      EXPECT_TRUE(slice.num_tiles == 1 || partial_bytes(slice.range, llama_8b) <= most_bytes);
      for (std::uint32_t r = next_row; r < next_row + slice.range.num_rows; ++r)
        EXPECT_LE(rows_[r].position.value / kv_split + 1, slice.range.first_split + slice.range.num_splits);
      next_tile += slice.num_tiles, next_row += slice.range.num_rows;
    }
    EXPECT_EQ(next_tile, tiles.size());
    EXPECT_EQ(next_row, rows_.size());
    EXPECT_EQ(slices.size() == 1, most_bytes == std::size_t{1} << 40);
  }
}

TEST_F(attention_plan, splits_before_every_window_are_left_out) {
  append(paged_.chain_rows(0, 900, 902));
  attention_shape shape = llama_8b;
  shape.window = 200; // from position 701, in split 5
  const auto batch = paged_.batch(rows_);
  const auto slices = slice_tiles(batch, tile_rows(batch, shape), shape, std::size_t{1} << 40);
  ASSERT_EQ(slices.size(), 1U);
  EXPECT_EQ(slices[0].range.first_split, 5U);
  EXPECT_EQ(slices[0].range.num_splits, 3U);
}

TEST_F(attention_plan, a_row_that_moves_on_has_the_splits_of_all_its_places) {
  const auto range = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t window) {
    const split_range all = range_over(paged_.chain_rows(0, begin, end), window);
    return std::pair(all.first_split, all.num_splits);
  };
  EXPECT_EQ(range(126, 128, 0), std::pair(0U, 1U));
  EXPECT_EQ(range(126, 129, 0), std::pair(0U, 2U));
  EXPECT_EQ(range(300, 303, 8), std::pair(2U, 1U));
  EXPECT_EQ(range(382, 395, 8), std::pair(2U, 2U)) << "the last ones do not see the first split";
}

} // namespace
} // namespace paceline::gpu
