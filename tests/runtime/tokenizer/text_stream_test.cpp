#include "runtime/tokenizer/text_stream.hpp"

#include "runtime/base/utf8.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace paceline::tokenizer {
namespace {

tokenizer bytes() {
  return std::move(*tokenizer::from_vocabulary(test::make_vocabulary(
      test::tiny_bpe{.merges = {{"a", "b"}, {"ab", "a"}, {"b", "a"}, {"\xc3", "\xa9"}}})));
}

struct outcome {
  std::string text;
  std::optional<std::string> stop;
};

outcome run(const tokenizer& t, const std::vector<token_id>& tokens, const std::vector<std::string>& stops,
            bool include = false) {
  text_stream stream(t, stops, include);
  outcome out;
  for (const token_id token : tokens) {
    const stream_text step = stream.feed(token);
    EXPECT_TRUE(is_well_formed_utf8(step.text));
    out.text += step.text;
    if (step.stop_string) out.stop = step.stop_string;
    if (stream.stopped()) break;
  }
  if (!stream.stopped()) {
    const stream_text last = stream.finish();
    out.text += last.text;
    out.stop = last.stop_string;
  }
  return out;
}

outcome run(const std::string& text, const std::vector<std::string>& stops, bool include = false) {
  const tokenizer t = bytes();
  return run(t, *t.encode(text), stops, include);
}

TEST(text_stream, text_ends_before_the_stop_string_or_after_it) {
  EXPECT_EQ(run("hello END more", {"END"}).text, "hello ");
  EXPECT_EQ(run("hello END more", {"END"}, true).text, "hello END");
  EXPECT_EQ(run("hello END more", {"END"}).stop, "END");
  EXPECT_EQ(run("hello", {"END"}).text, "hello");
  EXPECT_FALSE(run("hello", {"END"}).stop);
}

TEST(text_stream, what_may_begin_a_stop_string_is_held_back_until_it_is_clear) {
  text_stream stream(bytes(), {"xyz"});
  EXPECT_EQ(stream.feed(token_id{'a'}).text, "a");
  EXPECT_EQ(stream.feed(token_id{'x'}).text, "");
  EXPECT_EQ(stream.feed(token_id{'y'}).text, "");
  EXPECT_EQ(stream.feed(token_id{'x'}).text, "xy");
  EXPECT_EQ(stream.feed(token_id{'q'}).text, "xq");
  EXPECT_EQ(stream.feed(token_id{'x'}).text, "");
  EXPECT_EQ(stream.finish().text, "x");
}

TEST(text_stream, the_stop_string_that_ends_first_wins_and_of_those_the_longest) {
  EXPECT_EQ(run("abcd", {"bcd", "bc"}).stop, "bc");
  EXPECT_EQ(run("abcd", {"bc", "abc", "c"}).stop, "abc");
  EXPECT_EQ(run("abcd", {"bc", "abc", "c"}).text, "");
}

TEST(text_stream, nothing_follows_a_stop) {
  text_stream stream(bytes(), {"b"});
  EXPECT_TRUE(stream.feed(token_id{'b'}).stop_string);
  EXPECT_EQ(stream.feed(token_id{'c'}).text, "");
  EXPECT_EQ(stream.finish().text, "");
}

TEST(text_stream, empty_stop_strings_stop_nothing) { EXPECT_EQ(run("abc", {"", "c"}).text, "ab"); }

TEST(text_stream, a_stop_string_may_be_a_replacement_character) {
  const tokenizer t = bytes();
  EXPECT_EQ(run(t, {token_id{'a'}, token_id{0xe2}, token_id{'b'}}, {std::string(replacement_character)}).text,
            "a");
  EXPECT_EQ(run(t, {token_id{'a'}, token_id{0xe2}}, {std::string(replacement_character)}).text, "a")
      << "at the end";
}

TEST(text_stream, how_text_is_cut_into_tokens_makes_no_difference) {
  constexpr unsigned seed = 29;
  std::mt19937 random(seed);
  const tokenizer t = bytes();
  const auto some_text = [&](std::size_t longest) {
    std::string text;
    for (auto n = random() % (longest + 1); n > 0; --n)
      text += random() % 6 == 0 ? "é" : random() % 2 != 0 ? "a" : "b";
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> stops;
    for (auto n = random() % 4; n > 0; --n) stops.push_back(some_text(4));
    const std::string text = some_text(14);
    const bool include = random() % 2 == 0;
    // The definition: of the ends of all occurrences the first; of the strings that end there the longest.
    std::size_t end = std::string::npos;
    std::string stop;
    for (const auto& candidate : stops) {
      const auto at = candidate.empty() ? std::string::npos : text.find(candidate);
      if (at == std::string::npos) continue;
      const std::size_t candidate_end = at + candidate.size();
      if (candidate_end < end || (candidate_end == end && candidate.size() > stop.size())) {
        end = candidate_end;
        stop = candidate;
      }
    }
    const std::string expected =
        end == std::string::npos ? text : text.substr(0, include ? end : end - stop.size());
    std::vector<token_id> single; // a token a byte
    for (const char byte : text) single.emplace_back(static_cast<unsigned char>(byte));
    for (const auto& tokens : {*t.encode(text), single}) {
      const outcome got = run(t, tokens, stops, include);
      ASSERT_EQ(got.text, expected) << "seed " << seed << ", case " << i << ": \"" << text << '"';
      ASSERT_EQ(got.stop.value_or(""), stop);
    }
  }
}

} // namespace
} // namespace paceline::tokenizer
