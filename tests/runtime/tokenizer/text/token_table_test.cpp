#include "runtime/tokenizer/text/token_table.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

TEST(token_table, finds_every_spelling_and_no_other) {
  std::vector<std::string> spellings;
  for (int i = 0; i < 5000; ++i) spellings.push_back("token" + std::to_string(i * 7));
  const token_table table(spellings);
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(table.find(spellings[static_cast<std::size_t>(i)]), token_id{i});
    EXPECT_EQ(table[token_id{i}], spellings[static_cast<std::size_t>(i)]);
  }
  EXPECT_FALSE(table.find("token1"));
  EXPECT_FALSE(token_table().find("a"));
}

TEST(token_table, an_empty_spelling_keeps_its_id_and_is_not_found) {
  const token_table table({"a", "", "b"});
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.find("b"), token_id{2});
  EXPECT_FALSE(table.find(""));
}

TEST(token_table, of_equal_spellings_the_last_is_found) {
  const token_table table({"a", "b", "a"});
  EXPECT_EQ(table.find("a"), token_id{2});
  EXPECT_EQ(table[token_id{0}], "a");
}

TEST(token_table, interning_adds_only_what_is_new) {
  token_table table;
  EXPECT_EQ(table.intern("x"), token_id{0});
  EXPECT_EQ(table.intern("y"), token_id{1});
  EXPECT_EQ(table.intern("x"), token_id{0});
  for (int i = 0; i < 1000; ++i) table.intern(std::to_string(i));
  EXPECT_EQ(table.size(), 1002U);
  EXPECT_EQ(table.find("999"), token_id{1001});
  EXPECT_EQ(table.longest_bytes(), 3U);
}

} // namespace
} // namespace paceline::tokenizer
