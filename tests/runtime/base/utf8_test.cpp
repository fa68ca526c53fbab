#include "runtime/base/utf8.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// Right sides are what Python 3.11 prints for bytes.decode("utf-8", errors="replace"), with U+FFFD as '?'.
TEST(utf8, replaces_ill_formed_bytes_as_python_does) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"abc", "abc"},
      {"\x80", "?"},
      {"\xc0\x80", "??"},
      {"\xc1\xbf!", "??"
                    "!"},
      {"\xc3", "?"},
      {"\xc3(", "?("},
      {"\xe2\x82", "?"},
      {"\xe2\x82(", "?("},
      {"\xe2(\x82", "?(?"},
      {"\xe0\x80\x80", "???"},
      {"\xed\xa0\x80", "???"},
      {"\xf0\x9f\x98", "?"},
      {"\xf0\x9f\x98x", "?x"},
      {"\xf0\x80\x80\x80", "????"},
      {"\xf4\x90\x80\x80", "????"},
      {"\xf5\x80", "??"},
      {"\xff\xfe", "??"},
      {"\xe2\x82\xe2\x82\xac", "?\xe2\x82\xac"},
      {"\xf0\x9f\xf0\x9f\x98\x80", "?\xf0\x9f\x98\x80"},
  };
  for (const auto& [bytes, expected] : cases) {
    std::string text = replace_ill_formed_utf8(bytes);
    for (auto at = text.find(replacement_character); at != text.npos; at = text.find(replacement_character))
      text.replace(at, replacement_character.size(), "?");
    EXPECT_EQ(text, expected);
    EXPECT_EQ(is_well_formed_utf8(bytes), bytes == replace_ill_formed_utf8(bytes));
  }
}

TEST(utf8, every_code_point_is_read_as_it_was_written) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(text, c);
    const utf8_unit unit = read_utf8(text, 0);
    ASSERT_EQ(unit.kind, utf8_unit::state::complete) << static_cast<std::uint32_t>(c);
    ASSERT_EQ(unit.code_point, c);
    ASSERT_EQ(unit.num_bytes, text.size());
    ASSERT_EQ(utf8_length(text[0]), text.size());
  }
}

TEST(utf8, replacing_gives_well_formed_text_for_any_bytes) {
  std::mt19937 random(20240611);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (auto n = random() % 12; n > 0; --n)
      bytes.push_back(static_cast<char>(random() % 2 != 0U ? random() : 0xe0 + random() % 24));
    ASSERT_TRUE(is_well_formed_utf8(replace_ill_formed_utf8(bytes))) << "seed 20240611, case " << i;
  }
}

} // namespace
} // namespace paceline
