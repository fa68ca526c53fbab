#include "runtime/tokenizer/models/bpe_model.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

using merges = std::vector<std::pair<std::string, std::string>>;

std::vector<token_id> encode(const bpe_model& model, std::string_view word,
                             std::size_t window_bytes = merge_list::default_window_bytes) {
  bpe_model::workspace work(window_bytes);
  std::vector<token_id> out;
  model.encode(word, work, out);
  return out;
}

std::vector<token_id> ids(std::initializer_list<int> values) {
  std::vector<token_id> out;
  for (const int value : values) out.emplace_back(value);
  return out;
}

std::shared_ptr<const token_table> table(const std::vector<std::string>& spellings) {
  return std::make_shared<const token_table>(spellings);
}

/// The definition: repeatedly merge the leftmost adjacent pair of the lowest rank.
std::vector<std::string>
merge_by_definition(std::vector<std::string> symbols,
                    const std::map<std::pair<std::string, std::string>, int>& ranks) {
  for (;;) {
    int best_rank = -1;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && (best_rank < 0 || found->second < best_rank)) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank < 0) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(bpe_model, lower_ranks_merge_first_wherever_they_stand) {
  const auto tokens = table({"a", "b", "c", "ab", "bc", "abc"});
  EXPECT_EQ(encode(bpe_model(tokens, {{"b", "c"}, {"a", "b"}, {"a", "bc"}}, {}), "abc"), ids({5}));
  EXPECT_EQ(encode(bpe_model(tokens, {{"b", "c"}, {"a", "b"}}, {}), "abc"), ids({0, 4}));
  EXPECT_EQ(encode(bpe_model(tokens, {{"a", "b"}, {"b", "c"}}, {}), "abc"), ids({3, 2}));
}

TEST(bpe_model, equals_its_definition_on_random_vocabularies) {
  constexpr unsigned seed = 7;
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = {"a", "b", "é", "漢"};
    merges rules;
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (int i = 0; i < 25; ++i) {
      const auto left = tokens[random() % tokens.size()];
      const auto right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 16 ||
          !ranks.emplace(std::pair(left, right), static_cast<int>(rules.size())).second)
        continue;
      rules.emplace_back(left, right);
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end())
        tokens.push_back(left + right);
    }
    const bpe_model model(table(tokens), rules, {});
    for (int i = 0; i < 40; ++i) {
      std::vector<std::string> characters;
      std::string word;
      for (auto n = 1 + random() % 24; n > 0; --n) characters.push_back(tokens[random() % 4]);
      for (const auto& character : characters) word += character;
      for (const std::size_t window : {4, 7, 16, 4096}) {
        std::vector<std::string> got;
        for (const token_id id : encode(model, word, window))
          got.push_back(tokens[static_cast<std::size_t>(id.value)]);
        ASSERT_EQ(got, merge_by_definition(characters, ranks))
            << "seed " << seed << ", round " << round << ", \"" << word << "\", windows of " << window;
      }
    }
  }
}

TEST(bpe_model, windows_grow_where_the_end_of_a_word_decides_about_its_beginning) {
  // Each pair merges before the one on its left: which of two letters pair depends on the last one.
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  merges rules;
  for (char c = 'y'; c >= 'a'; --c) {
    rules.emplace_back(std::string(1, c), std::string(1, static_cast<char>(c + 1)));
    tokens.push_back(rules.back().first + rules.back().second);
  }
  const bpe_model model(table(tokens), rules, {});
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  for (std::size_t length = 2; length <= alphabet.size(); ++length)
    for (std::size_t window = 4; window < 32; ++window)
      ASSERT_EQ(encode(model, alphabet.substr(0, length), window),
                encode(model, alphabet.substr(0, length), 4096))
          << length << " letters in windows of " << window;
}

TEST(bpe_model, a_long_word_takes_the_memory_of_a_window_and_ends_when_it_has_enough) {
  const auto tokens = table({"a", "b", "aa", "ab"});
  const bpe_model model(tokens, {{"a", "a"}, {"a", "b"}}, {});
  bpe_model::workspace work;
  std::vector<token_id> out;
  model.encode(std::string(std::size_t{4} << 20U, 'a'), work, out);
  EXPECT_EQ(out, std::vector(std::size_t{2} << 20U, token_id{2}));
  EXPECT_LT(work.num_bytes(), std::size_t{4} << 20U);
  out.clear();
  model.encode(std::string(std::size_t{4} << 20U, 'b'), work, out, 10);
  EXPECT_EQ(out, std::vector(11, token_id{1}));
}

TEST(bpe_model, a_merge_into_no_token_is_spelt_by_characters) {
  const bpe_model model(table({"a", "b", "c"}), {{"a", "b"}}, {});
  EXPECT_EQ(encode(model, "abc"), ids({0, 1, 2}));
}

TEST(bpe_model, whole_words_need_no_merges_where_the_rules_say_so) {
  const auto tokens = table({"a", "b", "ab", "\n", "\n\n"});
  EXPECT_EQ(encode(bpe_model(tokens, {}, {}), "ab"), ids({0, 1}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.ignore_merges = true}), "ab"), ids({2}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.whole_newlines = true}), "\n\n"), ids({4}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.whole_newlines = true}), "ab"), ids({0, 1}));
}

TEST(bpe_model, unknown_characters_become_bytes_or_unknown_or_nothing) {
  const auto tokens = table({"a", "<unk>", "<0xC3>", "<0xA9>"});
  EXPECT_EQ(encode(bpe_model(tokens, {}, {}), "aéa"), ids({0, 0}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.byte_fallback = true}), "aé"), ids({0, 2, 3}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.byte_fallback = true, .unknown = token_id{1}}), "éè"),
            ids({2, 3, 1}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.unknown = token_id{1}}), "èèa"), ids({1, 1, 0}));
  EXPECT_EQ(encode(bpe_model(tokens, {}, {.fuse_unknown = true, .unknown = token_id{1}}), "èèaè"),
            ids({1, 0, 1}));
}

TEST(bpe_model, a_long_run_of_one_letter_halves_again_and_again) {
  std::vector<std::string> tokens = {"a"};
  merges rules;
  for (int i = 0; i < 10; ++i) {
    rules.emplace_back(tokens.back(), tokens.back());
    tokens.push_back(tokens.back() + tokens.back());
  }
  const auto out = encode(bpe_model(table(tokens), rules, {}), std::string((1U << 20) + 3, 'a'));
  ASSERT_EQ(out.size(), 1024U + 2);
  EXPECT_EQ(out.front(), token_id{10});
  EXPECT_EQ(out[1024], token_id{1});
  EXPECT_EQ(out[1025], token_id{0});
}

} // namespace
} // namespace paceline::tokenizer
