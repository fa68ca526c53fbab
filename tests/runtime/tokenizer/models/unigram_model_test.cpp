#include "runtime/tokenizer/models/unigram_model.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

std::vector<std::string> encode(const std::vector<std::pair<std::string, double>>& entries,
                                std::string_view word, bool byte_fallback = false) {
  std::vector<std::string> spellings = {"<unk>"};
  std::vector<double> scores = {0};
  for (const auto& [spelling, score] : entries) {
    spellings.push_back(spelling);
    scores.push_back(score);
  }
  const unigram_model model(std::make_shared<const token_table>(spellings), scores, token_id{0},
                            byte_fallback);
  unigram_model::workspace work;
  std::vector<token_id> out;
  model.encode(word, work, out);
  std::vector<std::string> names;
  for (const token_id id : out) names.push_back(spellings[static_cast<std::size_t>(id.value)]);
  return names;
}

using names = std::vector<std::string>;

TEST(unigram_model, takes_the_split_of_highest_total_score) {
  EXPECT_EQ(encode({{"a", -1}, {"b", -1}, {"ab", -1.5}, {"abc", -9}, {"c", -1}}, "abc"), (names{"ab", "c"}));
  EXPECT_EQ(encode({{"a", -1}, {"b", -1}, {"ab", -2.5}, {"c", -1}}, "abc"), (names{"a", "b", "c"}));
}

TEST(unigram_model, of_equal_splits_the_first_found_stays) {
  EXPECT_EQ(encode({{"a", -1}, {"aa", -2}}, "aa"), (names{"aa"}));
}

TEST(unigram_model, a_run_of_unknown_characters_is_one_unknown) {
  EXPECT_EQ(encode({{"a", -1}}, "a漢字a"), (names{"a", "<unk>", "a"}));
}

TEST(unigram_model, unknown_characters_become_bytes_if_all_are_there) {
  EXPECT_EQ(encode({{"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}}, "aé", true), (names{"a", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(encode({{"a", -1}, {"<0xC3>", 0}}, "aé", true), (names{"a", "<unk>"}));
}

} // namespace
} // namespace paceline::tokenizer
