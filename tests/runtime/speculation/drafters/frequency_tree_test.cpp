#include "runtime/speculation/drafters/frequency_tree.hpp"

#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

using test::ids;

std::vector<std::vector<token_id>> all_of(const std::vector<ids>& texts) {
  std::vector<std::vector<token_id>> all;
  for (const auto& text : texts) all.push_back(test::tokens_of(text));
  return all;
}

TEST(frequency_tree, nodes_come_in_descending_path_probability) {
  const auto result =
      likely_tree(all_of({{1, 2, 3}, {1, 2, 4}, {1, 5}, {6}}), 1.0, {.depth = 4, .nodes = 64});
  // 1: 3/4; 2 below it: 3/4 * 2/3; then 6, 5, 3 and 4, a quarter each, those nearer to the root first.
  EXPECT_EQ(test::values_of(result.tree.tokens()), (ids{1, 2, 6, 5, 3, 4}));
  EXPECT_DOUBLE_EQ(result.score, 0.75 + 0.5 + 4 * 0.25);
  EXPECT_TRUE(result.tree.valid());
}

TEST(frequency_tree, a_continuation_that_ends_says_nothing_about_what_follows) {
  const auto result = likely_tree(all_of({{1}, {1}, {1, 2}}), 0.5, {.depth = 4, .nodes = 64});
  EXPECT_EQ(test::values_of(result.tree.tokens()), (ids{1, 2}));
  EXPECT_DOUBLE_EQ(result.score, 0.5 + 0.5) << "all that went on, went on with 2";
}

TEST(frequency_tree, keeps_to_its_bounds) {
  const auto texts = all_of({{1, 2, 3}, {1, 2, 4}, {1, 5}, {6}});
  EXPECT_EQ(test::values_of(likely_tree(texts, 1.0, {.depth = 4, .nodes = 2}).tree.tokens()), (ids{1, 2}));
  EXPECT_EQ(test::values_of(likely_tree(texts, 1.0, {.depth = 1, .nodes = 9}).tree.tokens()), (ids{1, 6}));
  EXPECT_EQ(test::values_of(likely_tree(texts, 1.0, {.depth = 4, .nodes = 9}, 0.4).tree.tokens()),
            (ids{1, 2}));
  EXPECT_TRUE(likely_tree({}, 1.0, {.depth = 4, .nodes = 9}).tree.empty());
}

} // namespace
} // namespace paceline::speculation
