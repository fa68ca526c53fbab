#include "runtime/tokenizer/normalizer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline::tokenizer {
namespace {

regex compiled(std::string_view pattern) {
  auto made = regex::compile(pattern);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

std::string normalized(normalizer::step step, std::string text) {
  normalizer steps;
  steps.add(std::move(step));
  regex::scratch work;
  auto out = steps.apply(std::move(text), work);
  return out ? *out : "error: " + out.error().message();
}

TEST(normalizer, unicode_forms_compose_and_decompose) {
  EXPECT_EQ(normalized(unicode_form::nfc, "e\xcc\x81\xef\xac\x81"), "\xc3\xa9\xef\xac\x81");
  EXPECT_EQ(normalized(unicode_form::nfd, "\xc3\xa9"), "e\xcc\x81");
  EXPECT_EQ(normalized(unicode_form::nfkc, "e\xcc\x81\xef\xac\x81"), "\xc3\xa9"
                                                                     "fi");
  EXPECT_EQ(normalized(unicode_form::nfkd, "\xef\xac\x81\xc3\xa9"), "fie\xcc\x81");
  EXPECT_EQ(normalized(unicode_form::nfc, "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "한");
}

TEST(normalizer, marks_come_in_canonical_order_whatever_their_number) {
  EXPECT_EQ(normalized(unicode_form::nfd, "q\xcc\x87\xcc\xa3"), "q\xcc\xa3\xcc\x87");
  std::string marks = "q";
  for (int i = 0; i < 200'000; ++i) marks += "\xcc\x87\xcc\xa3"; // swapping neighbours would take hours
  const std::string sorted = normalized(unicode_form::nfd, marks);
  EXPECT_EQ(sorted.size(), marks.size());
  EXPECT_EQ(sorted.substr(0, 5), "q\xcc\xa3\xcc\xa3");
}

TEST(normalizer, small_letters_are_unicodes) {
  EXPECT_EQ(normalized(lowercase_step{}, "ÀÉΣ漢A"), "àéσ漢a");
  EXPECT_EQ(normalized(lowercase_step{}, "\xc4\xb0"), "i\xcc\x87");
}

TEST(normalizer, strips_and_prepends) {
  EXPECT_EQ(normalized(strip_step{}, " \xc2\xa0 a b\n"), "a b");
  EXPECT_EQ(normalized(strip_step{true, false}, " a "), "a ");
  EXPECT_EQ(normalized(strip_step{}, "  "), "");
  EXPECT_EQ(normalized(prepend_step{"_"}, "a"), "_a");
  EXPECT_EQ(normalized(prepend_step{"_"}, ""), "");
  EXPECT_EQ(normalized(strip_accents_step{}, "e\xcc\x81x"), "ex");
}

TEST(normalizer, replaces_literals_and_patterns) {
  EXPECT_EQ(normalized(replace_step{" ", "_"}, " a  b"), "_a__b");
  EXPECT_EQ(normalized(replace_step{compiled(R"(\s+)"), " "}, "a \n b  "), "a b ");
  EXPECT_EQ(normalized(replace_step{compiled("x*"), "-"}, "axb"), "-a-b-")
      << "no empty match right behind another";
  EXPECT_EQ(normalized(replace_step{compiled("x*"), "-"}, ""), "");
}

TEST(normalizer, knows_unicode_9) {
  const std::string younger = "\xe1\xb7\xb6"; // U+1DF6, a mark of Unicode 10 below the letter
  EXPECT_EQ(normalized(unicode_form::nfd, "a\xcc\x81" + younger), "a\xcc\x81" + younger) << "is not moved";
  EXPECT_EQ(normalized(unicode_form::nfc, "e" + younger + "\xcc\x81"), "e" + younger + "\xcc\x81");
  EXPECT_EQ(normalized(strip_accents_step{}, "a" + younger), "a" + younger);
  EXPECT_EQ(normalized(unicode_form::nfkc, "\xe3\x8b\xbf"), "\xe3\x8b\xbf") << "U+32FF, of Unicode 12.1";
}

} // namespace
} // namespace paceline::tokenizer
