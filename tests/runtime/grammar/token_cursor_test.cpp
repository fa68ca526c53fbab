#include "runtime/grammar/after_thoughts.hpp"
#include "runtime/grammar/alternatives.hpp"
#include "runtime/grammar/grammar_compiler.hpp"
#include "runtime/grammar/token_frames.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace paceline::grammar {
namespace {

using kind = grammar_source::kind;

/// Bytes, some longer tokens, and an end. The logits have 40 tokens more than the vocabulary.
class cursors : public testing::Test {
 protected:
  cursors()
      : vocabulary(*tokenizer::tokenizer::from_vocabulary(
            test::make_vocabulary(test::tiny_bpe{.merges = {{"a", "m"},
                                                            {"n", "am"},
                                                            {"nam", "e"},
                                                            {"\"", ":"},
                                                            {"t", "r"},
                                                            {"tr", "ue"},
                                                            {"u", "e"},
                                                            {"a", "b"},
                                                            {"ab", "c"},
                                                            {"1", "2"},
                                                            {"}", "\n"}}}))),
        vocab_size(static_cast<std::uint32_t>(vocabulary.size()) + 40), end(*vocabulary.eos()),
        library(make_compiler(vocabulary, vocab_size, {end})) {}

  std::shared_ptr<const token_constraint> compile(kind what, const std::string& text) const {
    auto made = library->compile({what, text});
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    return made ? *made : nullptr;
  }
  std::vector<token_id> tokens_of(const std::string& text) const {
    return *vocabulary.encode(text, {.add_special = false, .parse_special = false});
  }
  static std::vector<std::uint32_t> copy(std::span<const std::uint32_t> mask) {
    return {mask.begin(), mask.end()};
  }
  static bool is_set(const std::vector<std::uint32_t>& mask, std::size_t i) {
    return ((mask[i / 32] >> (i % 32)) & 1U) != 0;
  }

  std::vector<token_id> allowed_tokens(constraint_cursor& cursor, const std::vector<token_id>& output) const {
    const auto mask = copy(cursor.allowed(output, {}));
    std::vector<token_id> out;
    for (std::size_t i = 0; i < mask.size() * 32; ++i)
      if (is_set(mask, i)) out.push_back(token_id{static_cast<token_id::rep>(i)});
    return out;
  }

  tokenizer::tokenizer vocabulary;
  std::uint32_t vocab_size;
  token_id end;
  std::unique_ptr<compiler> library;
};

const grammar_source sources[] = {
    {kind::json_object, ""},
    {kind::regex, "(ab|abc|[^a]{1,200}x)*[0-9]{2,4}"},
    {kind::ebnf, "root ::= \"a\" root \"b\" | \"c\""},
    {kind::choice, R"(["name", "nam", "true"])"},
    {kind::json_schema,
     R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 100},
       "n": {"type": "integer", "minimum": 3, "maximum": 1200}}, "required": ["n"]})"},
    {kind::json_schema,
     R"({"type": "array", "items": {"enum": ["a", "ab", true, 12, null]}, "minItems": 1})"},
};

TEST_F(cursors, move_in_both_directions_and_agree_with_a_fresh_one) {
  std::mt19937 random(5);
  for (const auto& source : sources) {
    const auto constraint = compile(source.what, source.text);
    ASSERT_TRUE(constraint);
    const auto cursor = constraint->begin();
    std::vector<token_id> output;
    for (int step = 0; step < 120; ++step) {
      std::vector<token_id> path;
      // Moves forwards by allowed tokens, backwards, and sometimes to a token that is not allowed.
      const auto next = allowed_tokens(*cursor, output);
      if (random() % 4 == 0)
        output.resize(random() % (output.size() + 1));
      else if (!next.empty())
        output.push_back(next[random() % next.size()]);
      for (std::size_t i = random() % 3; i > 0; --i)
        path.push_back(token_id{static_cast<token_id::rep>(random() % vocab_size)});
      const auto fresh = constraint->begin();
      ASSERT_EQ(copy(cursor->allowed(output, path)), copy(fresh->allowed(output, path))) << source.text;
      ASSERT_EQ(cursor->num_allowed(output, {}, path), constraint->begin()->num_allowed(output, {}, path));
      if (output.size() > 60) output.clear();
    }
  }
}

TEST_F(cursors, allow_exactly_the_tokens_that_are_accepted) {
  std::mt19937 random(6);
  for (const auto& source : sources) {
    const auto constraint = compile(source.what, source.text);
    ASSERT_TRUE(constraint);
    const auto cursor = constraint->begin();
    std::vector<token_id> output;
    for (int step = 0; step < 60; ++step) {
      const auto mask = copy(cursor->allowed(output, {}));
      ASSERT_EQ(mask.size(), (vocab_size + 31) / 32);
      // After the end only the end is chosen, and nothing is drafted.
      if (!output.empty() && output.back() == end) {
        ASSERT_EQ(allowed_tokens(*cursor, output), std::vector<token_id>{end});
        ASSERT_EQ(cursor->num_allowed(output, {}, {&end, 1}), 0U);
        output.clear();
        continue;
      }
      for (std::size_t i = 0; i < mask.size() * 32; ++i) {
        const token_id token{static_cast<token_id::rep>(i)};
        ASSERT_EQ(is_set(mask, i), cursor->num_allowed(output, {}, {&token, 1}) == 1)
            << source.text << " behind " << vocabulary.decode(output) << " token " << i;
      }
      const auto next = allowed_tokens(*cursor, output);
      ASSERT_FALSE(next.empty()) << vocabulary.decode(output);
      output.push_back(next[random() % next.size()]);
    }
  }
}

TEST_F(cursors, allow_the_end_when_the_text_is_whole) {
  const auto constraint = compile(kind::choice, R"(["nam", "name"])");
  const auto cursor = constraint->begin();
  EXPECT_EQ(cursor->num_allowed({}, {}, {&end, 1}), 0U);
  const auto part = tokens_of("nam");
  const auto may_end = allowed_tokens(*cursor, part);
  EXPECT_EQ(may_end, (std::vector<token_id>{token_id{'e'}, end}));
  EXPECT_EQ(allowed_tokens(*cursor, tokens_of("name")), std::vector<token_id>{end});
  auto ended = part;
  ended.push_back(end);
  EXPECT_EQ(allowed_tokens(*cursor, ended), std::vector<token_id>{end}) << "a draft may go on behind the end";
  EXPECT_TRUE(allowed_tokens(*cursor, tokens_of("nab")).empty());
}

TEST_F(cursors, never_allow_special_tokens_and_tokens_beyond_the_vocabulary) {
  const auto constraint = compile(kind::regex, "(.|\\n)*");
  const auto cursor = constraint->begin();
  const auto mask = copy(cursor->allowed({}, {}));
  EXPECT_FALSE(is_set(mask, static_cast<std::size_t>(vocabulary.bos()->value)));
  for (std::size_t i = vocabulary.size(); i < mask.size() * 32; ++i) EXPECT_FALSE(is_set(mask, i)) << i;
  for (const int bad : {-1, static_cast<int>(vocab_size), 1 << 30}) {
    const token_id token{bad};
    EXPECT_EQ(cursor->num_allowed({}, {}, {&token, 1}), 0U);
  }
}

TEST_F(cursors, tell_the_text_that_must_follow) {
  const auto constraint =
      compile(kind::json_schema, R"({"type": "object", "properties": {"name": {"type": "boolean"}},
    "required": ["name"], "additionalProperties": false})");
  const auto cursor = constraint->begin();
  std::vector<token_id> forced;
  cursor->append_forced({}, 16, forced);
  EXPECT_EQ(vocabulary.decode(forced), "{");
  forced.clear();
  const auto begin = tokens_of("{\"");
  cursor->append_forced(begin, 16, forced);
  EXPECT_EQ(vocabulary.decode(forced), "name\":");
  EXPECT_EQ(forced.size(), 2U) << "as the vocabulary divides it";
  forced.clear();
  cursor->append_forced(begin, 1, forced);
  EXPECT_EQ(vocabulary.decode(forced), "name");
  forced.clear();
  cursor->append_forced(tokens_of("{\"name\":"), 16, forced);
  EXPECT_TRUE(forced.empty()) << "a space or a value may follow";
  cursor->append_forced(tokens_of("{\"x"), 16, forced);
  EXPECT_TRUE(forced.empty()) << "not allowed itself";
}

TEST_F(cursors, allow_one_division_of_a_text_that_must_follow) {
  const auto constraint =
      compile(kind::json_schema, R"({"type": "object", "properties": {"name": {"type": "boolean"}},
    "required": ["name"], "additionalProperties": false})");
  const auto cursor = constraint->begin();
  const auto begin = tokens_of("{\"");
  std::vector<token_id> forced;
  cursor->append_forced(begin, 16, forced);
  EXPECT_EQ(allowed_tokens(*cursor, begin), std::vector<token_id>{forced.front()});
  EXPECT_EQ(cursor->num_allowed(begin, {}, forced), forced.size());
  const token_id letter{'n'};
  EXPECT_EQ(cursor->num_allowed(begin, {}, {&letter, 1}), 0U) << "the vocabulary has a longer token";
  // The division is the same, whether the cursor comes from before, from behind or from another branch.
  const auto far = tokens_of("{\"name\": true");
  EXPECT_FALSE(allowed_tokens(*cursor, far).empty());
  EXPECT_EQ(allowed_tokens(*cursor, begin), std::vector<token_id>{forced.front()});
  EXPECT_EQ(allowed_tokens(*constraint->begin(), begin), std::vector<token_id>{forced.front()});
}

TEST_F(cursors, divide_a_long_text_that_must_follow) {
  const std::string text = "name" + std::string(1500, 'x') + "\u00e4\u00f6" + std::string(300, 'y') + "name";
  const auto constraint = compile(kind::regex, text);
  const auto cursor = constraint->begin();
  std::vector<token_id> output;
  for (auto next = allowed_tokens(*cursor, output); next.size() == 1 && next.front() != end;
       next = allowed_tokens(*cursor, output))
    output.push_back(next.front());
  EXPECT_EQ(vocabulary.decode(output), text);
  std::vector<token_id> forced;
  constraint->begin()->append_forced({}, 1U << 20U, forced);
  EXPECT_EQ(forced, output);
}

TEST_F(cursors, leave_the_division_open_where_a_token_is_longer_than_what_must_follow) {
  const auto constraint = compile(kind::choice, R"(["name", "namx"])");
  const auto next = allowed_tokens(*constraint->begin(), {});
  EXPECT_NE(std::ranges::find(next, tokens_of("name").front()), next.end())
      << "\"nam\" must follow, and one token is \"name\"";
  EXPECT_NE(std::ranges::find(next, token_id{'n'}), next.end());
  const auto only = compile(kind::choice, R"(["namexyz", "namexzz"])");
  EXPECT_EQ(allowed_tokens(*only->begin(), {}), tokens_of("name")) << "no token has all of \"namex\"";
}

TEST_F(cursors, need_no_end_of_what_must_follow) {
  std::string doubled = "root ::= \"x\" r0\n";
  for (int i = 0; i < 30; ++i)
    doubled +=
        "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" + std::to_string(i + 1) + "\n";
  for (const std::string& text : {std::string("root ::= \"a\" root"), doubled + "r30 ::= \"y\""}) {
    const auto constraint = compile(kind::ebnf, text);
    const auto cursor = constraint->begin();
    std::vector<token_id> output;
    for (int i = 0; i < 300; ++i) {
      const auto next = allowed_tokens(*cursor, output);
      ASSERT_EQ(next.size(), 1U) << i;
      output.push_back(next.front());
    }
    std::vector<token_id> forced;
    constraint->begin()->append_forced({}, 300, forced);
    EXPECT_EQ(forced, output);
  }
}

TEST_F(cursors, tell_the_usual_token_where_a_longer_one_may_stand) {
  std::vector<token_id> forced;
  const auto ab = tokens_of("ab"), abc = tokens_of("abc");
  const auto inside = compile(kind::regex, "x(ab(c|d)x)*"); // "abc" is one token
  EXPECT_EQ(inside->begin()->append_forced(tokens_of("xabdx"), 4, forced), std::nullopt) << "it may end";
  const auto three = compile(kind::regex, "(ab(c|d)x){3}");
  EXPECT_EQ(three->begin()->append_forced({}, 4, forced), ab.front());
  EXPECT_EQ(three->begin()->append_forced(tokens_of("abcx"), 4, forced), abc.front());
  EXPECT_TRUE(forced.empty());
}

TEST_F(cursors, leave_out_a_forced_token_that_may_become_a_longer_one) {
  // "ab" is forced, and "abc" is one token.
  const auto constraint = compile(kind::regex, "xab(c|d)");
  std::vector<token_id> forced;
  constraint->begin()->append_forced({}, 16, forced);
  EXPECT_EQ(vocabulary.decode(forced), "x");
  const auto other = compile(kind::regex, "xab(d|e)");
  forced.clear();
  other->begin()->append_forced({}, 16, forced);
  EXPECT_EQ(vocabulary.decode(forced), "xab");
}

TEST_F(cursors, long_repetitions_end_exactly_and_take_little_work) {
  const auto a = tokens_of("a"), b = tokens_of("b");
  for (const std::size_t count : {128U, 129U, 130U, 255U, 256U, 257U, 1'500U}) {
    const auto limit = std::to_string(count);
    for (const std::size_t least : {std::size_t{0}, std::size_t{1}, count / 2}) {
      const auto pattern = "[ab]{" + std::to_string(least) + "," + limit + "}";
      const auto constraint = *make_compiler(vocabulary, vocab_size, {end},
                                             {.cursor_work = 50'000, .cursor_work_per_token = 5'000})
                                   ->compile({kind::regex, pattern});
      const auto cursor = constraint->begin();
      std::vector<token_id> text;
      for (std::size_t i = 0; i <= count; ++i) {
        const auto mask = copy(cursor->allowed(text, {}));
        ASSERT_EQ(is_set(mask, static_cast<std::size_t>(a.front().value)), i < count) << pattern << i;
        ASSERT_EQ(is_set(mask, static_cast<std::size_t>(end.value)), i >= least) << pattern << i;
        text.push_back(i % 3 == 0 ? b.front() : a.front());
      }
      EXPECT_FALSE(cursor->is_exhausted()) << pattern;
    }
  }
}

/// With this grammar the work for a text grows with the cube of its length.
TEST_F(cursors, allow_nothing_when_their_work_is_used_up) {
  const grammar_source cubic{kind::ebnf, "root ::= e \".\"\ne ::= e e | \"a\""};
  const auto constraint =
      *make_compiler(vocabulary, vocab_size, {end}, {.cursor_work = 50'000, .cursor_work_per_token = 100})
           ->compile(cubic);
  const auto a = tokens_of("a").front();
  const auto length_of_text = [&](constraint_cursor& cursor) {
    std::vector<token_id> text;
    while (text.size() < 2000 && is_set(copy(cursor.allowed(text, {})), static_cast<std::size_t>(a.value)))
      text.push_back(a);
    return text.size();
  };
  const auto cursor = constraint->begin();
  EXPECT_FALSE(cursor->is_exhausted());
  const auto length = length_of_text(*cursor);
  EXPECT_GT(length, 10U);
  EXPECT_LT(length, 200U);
  EXPECT_TRUE(cursor->is_exhausted());
  EXPECT_TRUE(allowed_tokens(*cursor, {}).empty()) << "for good";
  EXPECT_EQ(cursor->num_allowed({}, {}, {&a, 1}), 0U);
  EXPECT_EQ(length_of_text(*constraint->begin()), length) << "the same on each machine";

  // What a long output has not used is not saved up for its end.
  const auto late =
      *make_compiler(vocabulary, vocab_size, {end}, {.cursor_work = 50'000, .cursor_work_per_token = 1'000})
           ->compile({kind::ebnf, "root ::= \"b\"* e \".\"\ne ::= e e | \"a\""});
  const auto late_cursor = late->begin();
  std::vector<token_id> text(1000, tokens_of("b").front());
  while (text.size() < 2000 &&
         is_set(copy(late_cursor->allowed(text, {})), static_cast<std::size_t>(a.value)))
    text.push_back(a);
  EXPECT_LT(text.size(), 1300U);
  EXPECT_TRUE(late_cursor->is_exhausted());

  // With one unit for each token a text costs, there is no end.
  const auto linear =
      *make_compiler(vocabulary, vocab_size, {end}, {.cursor_work = 5'000, .cursor_work_per_token = 5'000})
           ->compile({kind::ebnf, "root ::= \"a\" root | \".\""});
  EXPECT_EQ(length_of_text(*linear->begin()), 2000U);
}

/// The masks along an accepted draft are those of plain decoding, and so is their work.
TEST_F(cursors, do_the_same_work_with_and_without_drafts) {
  const auto a = tokens_of("a").front();
  const auto constraint =
      *make_compiler(vocabulary, vocab_size, {end}, {.cursor_work = 50'000, .cursor_work_per_token = 2'000})
           ->compile({kind::ebnf, "root ::= e \".\"\ne ::= e e | \"a\""});
  const auto length_with = [&](std::size_t draft_length) {
    const auto cursor = constraint->begin();
    std::vector<token_id> text;
    while (text.size() < 2000) {
      std::vector<token_id> path;
      while (path.size() <= draft_length) { // the last one is the token behind the draft
        if (!is_set(copy(cursor->allowed(text, path)), static_cast<std::size_t>(a.value)))
          return text.size() + path.size();
        path.push_back(a);
      }
      text.insert(text.end(), path.begin(), path.end());
    }
    return text.size();
  };
  const auto plain = length_with(0);
  EXPECT_GT(plain, 30U);
  EXPECT_LT(plain, 300U);
  for (const std::size_t draft_length : {1U, 4U, 16U, 48U})
    EXPECT_EQ(length_with(draft_length), plain) << draft_length;
}

/// Constraints made of others are exhausted with them.
TEST_F(cursors, tell_of_used_up_work_through_all_layers) {
  const auto answer =
      *make_compiler(vocabulary, vocab_size, {end}, {.cursor_work = 10, .cursor_work_per_token = 0})
           ->compile({kind::ebnf, "root ::= [a-z]+ \".\""});
  const auto mark = tokens_of("n").front();
  const auto text = tokens_of("aaaaaaaa");
  auto behind_mark = text;
  behind_mark.insert(behind_mark.begin(), mark);
  const std::pair<std::shared_ptr<const token_constraint>, std::vector<token_id>> cases[] = {
      {any_alternative({answer}, vocab_size), text},
      {any_frame({{{mark}, answer}}, vocab_size), behind_mark},
      {after_thoughts(answer, {.open = std::nullopt, .close = mark, .end_ids = {end}}, vocab_size),
       behind_mark}};
  for (const auto& [constraint, output] : cases) {
    const auto cursor = constraint->begin();
    EXPECT_FALSE(cursor->is_exhausted());
    EXPECT_TRUE(allowed_tokens(*cursor, output).empty());
    EXPECT_TRUE(cursor->is_exhausted());
  }
}

} // namespace
} // namespace paceline::grammar
