#include "runtime/tokenizer/incremental_decoder.hpp"

#include "runtime/base/utf8.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

tokenizer byte_level() {
  return std::move(*tokenizer::from_vocabulary(test::make_vocabulary(
      test::tiny_bpe{.merges = {{"\xc3", "\xa9"}, {"\x9f", "\x98"}, {"\x80", "a"}, {" ", "a"}},
                     .user_defined = {"<tag>"}})));
}

tokenizer spm() {
  return std::move(*tokenizer::from_vocabulary(
      test::make_vocabulary(test::tiny_spm{.pieces = {{" ", -1}, {" a", -1}, {"  ", -1}, {"é", -1}}})));
}

/// The concatenated increments, after checking each.
std::string in_steps(const tokenizer& t, const std::vector<token_id>& tokens, decode_options options = {}) {
  incremental_decoder decoder(t, options);
  std::string out;
  for (const token_id token : tokens) {
    const std::string step = decoder.feed(token);
    EXPECT_TRUE(is_well_formed_utf8(step));
    out += step;
  }
  return out + decoder.flush();
}

TEST(incremental_decoder, every_pair_of_byte_tokens_gives_what_decoding_at_once_gives) {
  const tokenizer t = byte_level();
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::vector tokens = {token_id{a}, token_id{b}};
      const std::string bytes = {static_cast<char>(a), static_cast<char>(b)};
      ASSERT_EQ(in_steps(t, tokens), replace_ill_formed_utf8(bytes)) << a << ' ' << b;
      ASSERT_EQ(t.decode(tokens), replace_ill_formed_utf8(bytes)) << a << ' ' << b;
    }
}

TEST(incremental_decoder, random_tokens_give_what_decoding_at_once_gives) {
  constexpr unsigned seed = 23;
  std::mt19937 random(seed);
  for (const tokenizer& t : {byte_level(), spm()})
    for (int i = 0; i < 4000; ++i) {
      std::vector<token_id> tokens;
      for (auto n = random() % 10; n > 0; --n)
        tokens.emplace_back(static_cast<int>(random() % (random() % 2 != 0 ? t.size() + 2 : 8)) - 1);
      const decode_options options{random() % 2 == 0, random() % 2 == 0};
      ASSERT_EQ(in_steps(t, tokens, options), t.decode(tokens, options)) << "seed " << seed << ", case " << i;
    }
}

TEST(incremental_decoder, a_character_appears_with_its_last_byte) {
  incremental_decoder decoder(byte_level());
  EXPECT_EQ(decoder.feed(token_id{0xf0}), "");
  EXPECT_EQ(decoder.feed(token_id{257}), "") << "the two middle bytes";
  EXPECT_EQ(decoder.feed(token_id{258}), "\xf0\x9f\x98\x80"
                                         "a");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(incremental_decoder, an_unfinished_character_is_replaced_at_the_end) {
  incremental_decoder decoder(byte_level());
  EXPECT_EQ(decoder.feed(token_id{0xe2}), "");
  EXPECT_EQ(decoder.feed(token_id{0x82}), "");
  EXPECT_EQ(decoder.flush(), std::string(replacement_character));
  EXPECT_EQ(decoder.flush(), "");
}

TEST(incremental_decoder, only_the_first_space_of_a_text_that_begins_is_taken_away) {
  const tokenizer t = spm();
  const token_id space_a = *t.find("▁a");
  const token_id two_spaces = *t.find("▁▁");
  EXPECT_EQ(in_steps(t, {*t.bos(), space_a, space_a}), "a a");
  EXPECT_EQ(in_steps(t, {two_spaces, space_a}), "  a");
  EXPECT_EQ(in_steps(t, {space_a}, {.continues_text = true}), " a");
  EXPECT_EQ(in_steps(t, {*t.bos(), space_a}, {.skip_special = false}), "<s> a");
}

} // namespace
} // namespace paceline::tokenizer
