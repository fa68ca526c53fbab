#include "config/yaml_reader.hpp"

#include <gtest/gtest.h>

#include <random>

namespace paceline::config {
namespace {

std::vector<std::string> errors_of(std::string_view text) {
  std::vector<std::string> errors;
  read_yaml(text, "f", errors);
  return errors;
}

TEST(yaml_reader_test, nodes_know_their_place_and_their_quotes) {
  std::vector<std::string> errors;
  const auto root = read_yaml("a: 1\nb:\n  - \"2\"\n  - {c: x}\n", "f", errors);
  ASSERT_TRUE(errors.empty());
  ASSERT_NE(root.find("a"), nullptr);
  EXPECT_EQ(root.find("a")->place.text("f"), "f:1:4");
  EXPECT_FALSE(root.find("a")->quoted);
  const auto& items = root.find("b")->items;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_TRUE(items[0].quoted);
  EXPECT_EQ(items[0].place.text("f"), "f:3:5");
  EXPECT_EQ(items[1].find("c")->text, "x");
}

TEST(yaml_reader_test, everything_beyond_plain_documents_is_refused_with_its_place) {
  const std::pair<const char*, const char*> cases[] = {
      {"a: &x 1\n", "f:1:4: anchors"},
      {"a: &x {b: 1}\n", "anchors"},
      {"a: *x\n", "f:1:4: "},
      {"a: &x [1]\nb: *x\n", "anchors"},
      {"a:\n  <<: {b: 1}\n", "f:2:3: merge keys"},
      {"a: !!int 1\n", "tags"},
      {"a: !mine {}\n", "tags"},
      {"a: 1\nb: 2\na: 3\n", "f:3:1: the key 'a' is there already"},
      {"a: {b: 1, b: 1}\n", "the key 'b' is there already"},
      {"{a: 1}: 2\n", "a key must be a text"},
      {"? [a]\n: 2\n", "a key must be a text"},
      {"~: 2\n", "a key must be a text"},
      {"a: 1\n---\nb: 2\n", "only one document"},
      {"a: [1\n", "not valid YAML"},
      {"a: b: c\n", "not valid YAML"},
      {"\ta: 1\n", "not valid YAML"},
      {"a: \"x\n", "a quote without its end"},
      {"a: 'it''s\n", "a quote without its end"},
      {"\xFF\xFE"
       "a",
       "not UTF-8"},
  };
  for (const auto& [text, part] : cases) {
    const auto errors = errors_of(text);
    ASSERT_FALSE(errors.empty()) << text;
    EXPECT_NE(errors.front().find(part), std::string::npos) << text << " -> " << errors.front();
  }
}

TEST(yaml_reader_test, quotes_of_both_kinds_end_where_they_should) {
  std::vector<std::string> errors;
  const auto root = read_yaml("\xEF\xBB\xBF"
                              "a: \"x\\\"y\"\nb: 'it''s'\nc: \"\xC3\xA4\"\r\nd: \"z\"\n",
                              "f", errors);
  ASSERT_TRUE(errors.empty()) << errors.front();
  EXPECT_EQ(root.find("a")->text, "x\"y");
  EXPECT_EQ(root.find("b")->text, "it's");
  EXPECT_EQ(root.find("c")->text, "\xC3\xA4");
  EXPECT_EQ(root.find("d")->text, "z");
}

TEST(yaml_reader_test, every_duplicate_is_reported) { EXPECT_EQ(errors_of("a: 1\na: 2\na: 3\n").size(), 2U); }

TEST(yaml_reader_test, depth_is_bounded) {
  EXPECT_TRUE(errors_of(std::string(32, '[') + std::string(32, ']')).empty());
  for (const std::size_t depth : {33U, 600U, 100'000U}) {
    const auto errors = errors_of(std::string(depth, '[') + std::string(depth, ']'));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_NE(errors.front().find("32 levels"), std::string::npos);
  }
  EXPECT_FALSE(errors_of(std::string(100'000, '{')).empty());
}

TEST(yaml_reader_test, an_alias_bomb_is_refused_at_its_first_anchor) {
  std::string bomb = "a: &a0 [x, x]\n";
  for (int i = 0; i < 40; ++i) {
    const auto before = std::to_string(i);
    const auto name = std::to_string(i + 1);
    bomb.append(name)
        .append(": &a")
        .append(name)
        .append(" [*a")
        .append(before)
        .append(", *a")
        .append(before)
        .append("]\n");
  }
  EXPECT_EQ(errors_of(bomb).size(), 1U);
}

TEST(yaml_reader_test, no_bytes_whatever_get_out_of_hand) {
  constexpr std::string_view alphabet = "ab: -[]{},\"'#&*!|>%@`\n\n  ?~\\\t0x\xC3\xFF";
  constexpr std::uint64_t seed = 20261121;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 40, '\0');
    for (auto& c : text) c = alphabet[random() % alphabet.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + " text " + text);
    std::vector<std::string> errors;
    read_yaml(text, "f", errors);
  }
}

} // namespace
} // namespace paceline::config
