#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline::tokenizer {
namespace {

vocabulary_data base() { return test::make_vocabulary(test::tiny_bpe{.merges = {{"t", "h"}, {"th", "e"}}}); }

tokenizer make(vocabulary_data data) { return std::move(*tokenizer::from_vocabulary(std::move(data))); }

std::string difference(vocabulary_data target, vocabulary_data drafter) {
  const auto same = check_compatible(make(std::move(target)), make(std::move(drafter)));
  return same ? "" : same.error().message();
}

void append(vocabulary_data& data, std::string spelling, token_type type) {
  data.tokens.push_back(std::move(spelling));
  data.types.push_back(type);
}

TEST(compatibility, equal_vocabularies_have_equal_hashes_whatever_their_merges) {
  auto other = base();
  other.merges.pop_back();
  other.pre = "qwen2";
  EXPECT_EQ(make(base()).vocabulary_hash(), make(other).vocabulary_hash());
  EXPECT_EQ(difference(base(), other), "");
}

TEST(compatibility, unused_entries_at_the_end_do_not_matter) {
  auto padded = base();
  append(padded, "[PAD" + std::to_string(padded.tokens.size()) + "]", token_type::user_defined);
  append(padded, "anything", token_type::unused);
  append(padded, "", token_type::normal);
  EXPECT_EQ(difference(base(), padded), "");
  EXPECT_EQ(difference(padded, base()), "");
  EXPECT_NE(make(base()).vocabulary_hash(), make(padded).vocabulary_hash());
}

TEST(compatibility, the_first_difference_is_named) {
  auto more = base();
  append(more, "extra", token_type::normal);
  EXPECT_NE(difference(base(), more).find("only the drafter's has token 260 'extra'"), std::string::npos)
      << difference(base(), more);
  EXPECT_NE(difference(more, base()).find("only the target's has"), std::string::npos);
  auto other = base();
  other.tokens[256] = "tt";
  EXPECT_NE(difference(base(), other).find("token 256 is 'tt' in the drafter's and 'th' in the target's"),
            std::string::npos);
}

TEST(compatibility, spellings_in_errors_are_escaped) {
  auto other = base();
  other.tokens[256] = "\x1b[31m\n" + std::string(5000, 'x');
  EXPECT_NE(difference(base(), other).find("token 256 is '\\x1b[31m\\x0axxxx"), std::string::npos);
  EXPECT_LT(difference(base(), other).size(), 300U);
  auto more = base();
  append(more, "\x1b[31m", token_type::normal);
  EXPECT_NE(difference(base(), more).find("token 260 '\\x1b[31m'"), std::string::npos);
}

TEST(compatibility, different_special_ids_are_named) {
  auto other = base();
  other.eos = token_id{65};
  EXPECT_NE(difference(base(), other).find("EOS is 65 '"), std::string::npos) << difference(base(), other);
  other = base();
  other.bos.reset();
  EXPECT_NE(difference(base(), other).find("BOS is none in the drafter's"), std::string::npos);
}

TEST(compatibility, token_borders_are_part_of_the_hash) {
  auto one = base();
  auto two = base();
  append(one, "ab", token_type::normal);
  append(one, "c", token_type::normal);
  append(two, "a", token_type::normal);
  append(two, "bc", token_type::normal);
  EXPECT_NE(make(one).vocabulary_hash(), make(two).vocabulary_hash());
}

} // namespace
} // namespace paceline::tokenizer
