#include "runtime/tokenizer/models/spm_model.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

std::vector<token_id> encode(const spm_model& model, std::string_view text,
                             std::size_t window_bytes = merge_list::default_window_bytes) {
  spm_model::workspace work(window_bytes);
  std::vector<token_id> out;
  model.encode(text, work, out);
  return out;
}

TEST(spm_model, equals_its_definition_on_random_vocabularies) {
  constexpr unsigned seed = 11;
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = {"a", "b", "é", "▁"};
    std::vector<float> scores(4, 0.0F);
    for (int i = 0; i < 25; ++i) {
      auto piece = tokens[random() % tokens.size()] + tokens[random() % tokens.size()];
      if (piece.size() > 12 || std::find(tokens.begin(), tokens.end(), piece) != tokens.end()) continue;
      tokens.push_back(std::move(piece));
      scores.push_back(static_cast<float>(random() % 7) - 5.0F); // ties, negative and positive
    }
    const spm_model model(std::make_shared<const token_table>(tokens), scores, std::nullopt);
    for (int i = 0; i < 40; ++i) {
      std::vector<std::string> symbols;
      std::string text;
      for (auto n = 1 + random() % (i % 8 == 0 ? 150 : 20); n > 0; --n)
        symbols.push_back(tokens[random() % 4]);
      for (const auto& symbol : symbols) text += symbol;
      const auto score_of = [&](const std::string& piece) -> std::optional<float> {
        const auto found = std::find(tokens.begin(), tokens.end(), piece);
        if (found == tokens.end()) return std::nullopt;
        return scores[static_cast<std::size_t>(found - tokens.begin())];
      };
      for (;;) { // the definition: merge the leftmost adjacent pair of highest score
        std::optional<float> best_score;
        std::size_t best = 0;
        for (std::size_t j = 0; j + 1 < symbols.size(); ++j) {
          const auto score = score_of(symbols[j] + symbols[j + 1]);
          if (score && (!best_score || *score > *best_score)) {
            best_score = score;
            best = j;
          }
        }
        if (!best_score) break;
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      }
      for (const std::size_t window : {4, 7, 16, 4096}) {
        std::vector<std::string> got;
        for (const token_id id : encode(model, text, window))
          got.push_back(tokens[static_cast<std::size_t>(id.value)]);
        ASSERT_EQ(got, symbols) << "seed " << seed << ", round " << round << ", \"" << text
                                << "\", windows of " << window;
      }
    }
  }
}

TEST(spm_model, a_long_run_takes_the_memory_of_a_window) {
  const spm_model model(std::make_shared<const token_table>(std::vector<std::string>{"▁", "▁▁", "▁▁▁▁"}), {},
                        std::nullopt);
  spm_model::workspace work;
  std::vector<token_id> out;
  std::string text;
  for (int i = 0; i < 1 << 20; ++i) text += "▁";
  model.encode(text, work, out);
  EXPECT_EQ(out, std::vector(std::size_t{1} << 18U, token_id{2}));
  EXPECT_LT(work.num_bytes(), std::size_t{4} << 20U);
}

TEST(spm_model, characters_without_entry_become_bytes) {
  const spm_model model(
      std::make_shared<const token_table>(std::vector<std::string>{"<unk>", "a", "<0xC3>", "<0xA9>"}), {},
      token_id{0});
  EXPECT_EQ(encode(model, "aé"), (std::vector{token_id{1}, token_id{2}, token_id{3}}));
}

TEST(spm_model, a_character_that_not_even_bytes_spell_is_one_unknown) {
  const auto tokens = std::make_shared<const token_table>(std::vector<std::string>{"<unk>", "a"});
  EXPECT_EQ(encode(spm_model(tokens, {}, token_id{0}), "漢a"), (std::vector{token_id{0}, token_id{1}}));
  EXPECT_EQ(encode(spm_model(tokens, {}, std::nullopt), "漢a"), (std::vector{token_id{1}}));
}

} // namespace
} // namespace paceline::tokenizer
