#include "runtime/tokenizer/text/byte_alphabet.hpp"

#include "runtime/base/utf8.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace paceline::tokenizer {
namespace {

TEST(byte_alphabet, spells_known_bytes_as_vocabularies_do) {
  std::string out;
  append_byte_spelling(out, "a \n\xc3\xa9\xad");
  EXPECT_EQ(out, "aĠĊÃ©Ń");
}

TEST(byte_alphabet, every_byte_has_one_spelling_that_reads_back) {
  std::set<std::string> spellings;
  for (int i = 0; i < 256; ++i) {
    const std::string byte(1, static_cast<char>(i));
    std::string spelling;
    append_byte_spelling(spelling, byte);
    EXPECT_EQ(spelt_bytes(spelling), byte);
    spellings.insert(spelling);
  }
  EXPECT_EQ(spellings.size(), 256U);
}

TEST(byte_alphabet, characters_outside_the_alphabet_spell_nothing) {
  EXPECT_FALSE(spelt_bytes("a b"));
  EXPECT_FALSE(spelt_bytes("\xe2\x96\x81"));
  EXPECT_FALSE(spelt_bytes("\xc3"));
}

TEST(byte_alphabet, hexadecimal_spelling_reads_back_and_nothing_else_does) {
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(hex_spelt_byte(hex_byte_spelling(static_cast<std::uint8_t>(i))), static_cast<std::uint8_t>(i));
  EXPECT_EQ(hex_spelt_byte("<0xaf>"), 0xaf);
  for (const char* other : {"<0x0G>", "<0x0>", "<0x00", "0x00>", "<0x000>", ""})
    EXPECT_FALSE(hex_spelt_byte(other));
}

} // namespace
} // namespace paceline::tokenizer
