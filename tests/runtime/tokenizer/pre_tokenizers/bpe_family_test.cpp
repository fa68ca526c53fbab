#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"

#include "runtime/tokenizer/pre_tokenizers/splitter.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

using strings = std::vector<std::string>;

/// The splits of a family, in order.
std::vector<splitter> splitters_of(std::string_view name) {
  const auto family = find_bpe_family(name);
  EXPECT_TRUE(family) << name;
  std::vector<splitter> out;
  if (family->group_digits) out.emplace_back(digit_groups{});
  for (const auto pattern : family->patterns) {
    auto split = splitter::from_pattern(pattern);
    EXPECT_TRUE(split) << name << ": " << split.error().message();
    if (split) out.push_back(std::move(*split));
  }
  return out;
}

strings words(std::string_view name, std::string text) {
  text_pieces pieces(std::move(text));
  regex::scratch work;
  for (const auto& split : splitters_of(name)) EXPECT_TRUE(split.apply(pieces, work)) << name;
  strings out;
  for (const text_range range : pieces.ranges) out.emplace_back(pieces[range]);
  return out;
}

TEST(bpe_family, an_unknown_name_is_refused_and_none_means_default) {
  const auto family = find_bpe_family("no-such-family");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code(), errc::unsupported);
  EXPECT_NE(family.error().message().find("no-such-family"), std::string::npos);
  EXPECT_EQ(find_bpe_family("\x1b[31m\n").error().message(), "pre-tokenizer '\\x1b[31m\\x0a' is not known");
  EXPECT_EQ(find_bpe_family("")->patterns.data(), find_bpe_family("default")->patterns.data());
}

TEST(bpe_family, names_split_words_as_their_models_were_trained) {
  EXPECT_EQ(words("gpt-2", "We've 123  x\n"), (strings{"We", "'ve", " 123", " ", " x", "\n"}));
  EXPECT_EQ(words("smollm", "a 12"), (strings{"a", " ", "1", "2"}));
  EXPECT_EQ(words("llama-bpe", "WE'VE 12345\n\n!a"), (strings{"WE", "'VE", " ", "123", "45", "\n\n", "!a"}));
  EXPECT_EQ(words("llama-bpe", "a'ſb'sd"), (strings{"a", "'ſ", "b", "'s", "d"}));
  EXPECT_EQ(words("qwen2", "a 12"), (strings{"a", " ", "1", "2"}));
  EXPECT_EQ(words("qwen2", "हिन्दी"), (strings{"ह", "िन", "्द", "ी"}));
  EXPECT_EQ(words("qwen35", "हिन्दी"), (strings{"हिन्दी"}));
  EXPECT_EQ(words("gpt-4o", "camelCase HTTPServer"), (strings{"camel", "Case", " HTTPServer"}));
  EXPECT_EQ(words("gpt-4o", "don't 1234"), (strings{"don't", " ", "123", "4"}));
  EXPECT_EQ(words("tekken", "aB12"), (strings{"a", "B", "1", "2"}));
  EXPECT_EQ(words("falcon", "a, 1234`"), (strings{"a", ",", " ", "123", "4", "`"}));
  EXPECT_EQ(words("deepseek-coder", "if (x) 12\n"), (strings{"if", " (", "x", ")", " ", "1", "2", "\n"}));
  EXPECT_EQ(words("deepseek-v3", "1234 .x 漢字"), (strings{"123", "4", " .", "x", " ", "漢字"}));
  EXPECT_EQ(words("bloom", "a, b"), (strings{"a", ",", " b"}));
  EXPECT_EQ(words("tiny_aya", "1234567 x"), (strings{"1", "234", "567", " x"}));
  EXPECT_EQ(words("superbpe", "12345 words stay"), (strings{"12", "345", " words stay"}));
  EXPECT_EQ(words("kimi-k2", "漢字abc漢"), (strings{"漢字", "abc", "漢"}));
}

TEST(bpe_family, words_that_no_merges_make_are_tokens_in_all_of_llama_3s_vocabulary) {
  // 588 of its tokens, such as the Vietnamese " việc", are reached no other way.
  for (const char* name : {"llama-bpe", "smaug-bpe"})
    EXPECT_TRUE(find_bpe_family(name)->ignore_merges) << name;
  EXPECT_TRUE(find_bpe_family("llama-bpe")->add_bos);
  EXPECT_FALSE(find_bpe_family("smaug-bpe")->add_bos) << "SmolLM3 has no BOS";
}

TEST(bpe_family, no_text_is_lost_and_long_runs_take_no_time) {
  // Each run would take minutes if a pattern needed quadratic time.
  const strings runs = {
      "a",  "A",   "1",  " ", "\n", "!", "'", "é", "漢", "\xcc\x81", "\xe0\xa4\x95\xe0\xa5\x8d",
      "a ", " \n", "1 ", "aA"};
  std::map<const void*, std::string_view> distinct; // families that share patterns are tested once
  for (const auto name : bpe_family_names()) distinct.emplace(find_bpe_family(name)->patterns.data(), name);
  for (const auto& [data, name] : distinct) {
    const auto splitters = splitters_of(name);
    for (const auto& run : runs) {
      for (const char* end : {"", "x", "5"}) {
        std::string text;
        while (text.size() < (1U << 16)) text += run;
        text += end;
        text_pieces pieces(text);
        regex::scratch work;
        for (const auto& split : splitters) {
          const auto done = split.apply(pieces, work);
          ASSERT_TRUE(done) << name << ", run of \"" << run << "\": " << done.error().message();
        }
        std::size_t at = 0;
        for (const text_range range : pieces.ranges) {
          ASSERT_EQ(range.begin, at) << name << ", run of \"" << run << '"';
          at = range.end;
        }
        ASSERT_EQ(at, text.size());
      }
    }
  }
}

} // namespace
} // namespace paceline::tokenizer
