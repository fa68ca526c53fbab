#include "runtime/grammar/grammar_compiler.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace paceline::grammar {
namespace {

using kind = grammar_source::kind;

std::unique_ptr<compiler> make(const compile_limits& limits = {}) {
  const auto vocabulary = *tokenizer::tokenizer::from_vocabulary(test::make_vocabulary(test::tiny_bpe{}));
  return make_compiler(vocabulary, static_cast<std::uint32_t>(vocabulary.size()), {*vocabulary.eos()},
                       limits);
}

TEST(grammar_compiler, keeps_what_was_used_last) {
  const auto probe = *make()->compile({kind::regex, "[a-z]{1,9}0"});
  const auto library = make({.max_cached_bytes = 3 * (probe->num_bytes() + 300)});
  const auto first = *library->compile({kind::regex, "[a-z]{1,9}0"});
  EXPECT_EQ(*library->compile({kind::regex, "[a-z]{1,9}0"}), first);
  for (int i = 1; i < 10; ++i) {
    ASSERT_TRUE(library->compile({kind::regex, "[a-z]{1,9}" + std::to_string(i)}));
    EXPECT_EQ(*library->compile({kind::regex, "[a-z]{1,9}0"}), first) << "it is used all the time";
  }
  const auto last = *library->compile({kind::regex, "[a-z]{1,9}9"});
  for (const char* other : {"x", "y", "z", "u", "v", "w"})
    ASSERT_TRUE(library->compile({kind::regex, std::string("[a-z]{1,9}") + other}));
  EXPECT_NE(*library->compile({kind::regex, "[a-z]{1,9}9"}), last) << "it was dropped for others";
}

TEST(grammar_compiler, compiles_a_source_once_for_all_threads) {
  const auto library = make();
  std::vector<std::shared_ptr<const token_constraint>> made(4);
  std::vector<std::thread> threads;
  for (auto& one : made) threads.emplace_back([&] { one = *library->compile({kind::json_object, ""}); });
  for (auto& thread : threads) thread.join();
  for (const auto& one : made) EXPECT_EQ(one, made[0]);
}

TEST(grammar_compiler, tells_kinds_apart) {
  const auto library = make();
  EXPECT_NE(*library->compile({kind::regex, "[1]"}), *library->compile({kind::json_schema, "true"}));
  EXPECT_FALSE(library->compile({kind::json_schema, "[1]"}));
  EXPECT_TRUE(library->compile({kind::regex, "[1]"}));
}

TEST(grammar_compiler, errors_name_the_place_and_nothing_of_the_library) {
  const auto library = make({.max_source_bytes = 1 << 20});
  const grammar_source cases[] = {
      {kind::ebnf, ""},
      {kind::ebnf, "root ::= x"},
      {kind::ebnf, "root ::= \"a"},
      {kind::ebnf, "root ::= [z-a]"},
      {kind::ebnf, "root ::= \"a\"{5,3}"},
      {kind::ebnf, "root ::= \"a\"{1,100000}"},
      {kind::ebnf, "a ::= \"b\""},
      {kind::ebnf, "root ::= \"a\"\nroot ::= \"b\""},
      {kind::ebnf, "root ::= Token(1)"},
      {kind::ebnf, "root ::= TagDispatch((\"a\", root))"},
      {kind::ebnf, "root[max_tokens=3] ::= \"a\""},
      {kind::ebnf, " root[max_tokens=3] ::= \"a\""},
      {kind::ebnf, "root ::= x x[max_tokens=3]\n ::= \"a\""},
      {kind::ebnf, "#\rroot ::= Token(1)"},
      {kind::ebnf, "root ::= \"a\" (=\"b\")"},
      {kind::ebnf, "root ::= " + std::string(60'000, '(')},
      {kind::ebnf, "root ::= " + std::string(60'000, '[')},
      {kind::ebnf, std::string("root ::= \"a\"\0", 13)},
      {kind::ebnf, "\xFF\xFE ::="},
      {kind::regex, "^+"},
      {kind::regex, std::string(60'000, '(')},
      {kind::regex, std::string(200'000, '|')},
      {kind::choice, "{}"},
      {kind::choice, "[]"},
      {kind::choice, "[1]"},
      {kind::json_schema, "{\"uniqueItems\": true}"},
      {kind::json_schema, std::string(2 << 20, ' ')},
  };
  for (const auto& source : cases) {
    const auto made = library->compile(source);
    ASSERT_FALSE(made) << source.text.substr(0, 60);
    const auto& message = made.error().message();
    EXPECT_FALSE(message.empty());
    for (const char* hidden : {".cc", ".h:", "xgrammar", "Check failed", "0x", "/"})
      if (std::string(hidden) != "/" || source.what != kind::json_schema) {
        EXPECT_EQ(message.find(hidden), std::string::npos) << message;
      }
  }
}

TEST(grammar_compiler, recursion_in_a_grammar_ends) {
  const auto library = make();
  for (const char* text : {"root ::= root \"a\" | \"a\"", "root ::= root root | \"a\" | \"\"",
                           "root ::= (\"\" | \"a\"*)*", "root ::= a\na ::= b | \"x\"\nb ::= a"}) {
    const auto made = library->compile({kind::ebnf, text});
    ASSERT_TRUE(made) << text;
    EXPECT_FALSE((*made)->begin()->allowed({}, {}).empty());
  }
}

TEST(grammar_compiler, work_has_a_bound) {
  std::string rules;
  for (int i = 0; i < 400; ++i) {
    const auto name = [](int rule) { return "r" + std::to_string(rule); };
    rules += name(i) + " ::= [^" + std::string(1, static_cast<char>('a' + i % 26)) + "] " + name(i + 1) +
             " | \"x\"\n";
  }
  const grammar_source large{kind::ebnf, "root ::= r0\n" + rules + "r400 ::= \"y\"\n"};
  EXPECT_TRUE(make()->compile(large));
  const auto library = make({.compile_work = 20'000});
  const auto refused = library->compile(large);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::unsupported);
  EXPECT_EQ(refused.error().message(), "the grammar takes too much work to compile");
  EXPECT_TRUE(library->compile({kind::ebnf, "root ::= \"y\""})) << "each compilation has a budget of its own";
}

TEST(grammar_compiler, attributes_of_rules_are_refused_by_name) {
  const auto library = make();
  for (const char* text :
       {"root[max_tokens=3] ::= \"a\"", " root[max_tokens=3] ::= \"a\"", "root[capture=\"]\"] ::= \"a\"",
        "root[capture=\"]\"] ::= Token(1) #\"", "root[capture=\"]\"] ::= \"a\"{1,100000} #\"",
        "root ::= -\n-[max_tokens=3] ::= \"a\"", "root ::= .5\n.5[lazy] ::= \"a\"",
        "root[lazy]\n ::= \"a\""}) {
    const auto made = library->compile({kind::ebnf, text});
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().code(), errc::unsupported) << text;
    EXPECT_NE(made.error().message().find("attributes of rules are not supported"), std::string::npos)
        << made.error().message();
  }
  EXPECT_TRUE(library->compile({kind::ebnf, "root ::= a\n  b[\"x]\na ::= \"a\"\nb ::= \"b\""})) << "a class";
}

std::string repeated(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// Each of these takes minutes, gigabytes or all of the stack if nothing bounds it.
TEST(grammar_compiler, hostile_grammars_are_refused_soon) {
  std::string chain = "root ::= a0{2}\n", nullable = "root ::= \"x\"", classes = "root ::= \"x\"";
  for (int i = 0; i < 13'500; ++i)
    chain += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + "{2}\n";
  for (int i = 0; i < 1000; ++i) nullable += " | " + repeated(50, "\"a\"?") + "\"x\"";
  for (int i = 0; i < 20'000; ++i)
    classes += std::string(" | [") + static_cast<char>('a' + i % 26) + static_cast<char>('a' + i / 26 % 26) +
               static_cast<char>('A' + i / 676) + "]";
  const std::string cases[] = {
      "root ::= root{1,2}",
      "root ::= a{2}\na ::= b{2}\nb ::= a{2}",
      chain + "a13500 ::= \"x\"",
      nullable,
      classes,
      "root ::= \"x" + repeated(49'000, "a") + "\" | \"y" + repeated(49'000, "a") + "\"",
      "root ::= r" + repeated(5000, "|r") + "\nr ::= \"a\"" + repeated(5000, "|\"a\""),
      "root ::= " + repeated(30'000, "\"a\"?"),
      "root ::= \"" + repeated(200'000, "a") + "\"{128}",
      "root ::= " + repeated(30'000, "[a-z]"),
  };
  const auto library = make({.compile_work = 3'000'000});
  for (const auto& text : cases) {
    const auto made = library->compile({kind::ebnf, text});
    ASSERT_FALSE(made) << text.substr(0, 60);
    EXPECT_NE(made.error().code(), errc::internal) << made.error().message();
  }
  EXPECT_TRUE(library->compile({kind::ebnf, "root ::= \"a\"{2,128} | (\"b\"{2} \"c\"){1,3}"}));
}

TEST(grammar_compiler, a_refusal_is_remembered) {
  const auto library = make({.compile_work = 20'000});
  const grammar_source large{kind::ebnf, "root ::= " + repeated(2000, "[a-z]")};
  const auto first = library->compile(large);
  ASSERT_FALSE(first);
  const auto again = library->compile(large);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), first.error());
}

TEST(grammar_compiler, a_schema_whose_refusal_takes_time_is_remembered) {
  std::string levels = R"({"$ref": "#/$defs/a0", "$defs": {)";
  for (int i = 0; i < 25; ++i) {
    const auto next = R"({"$ref": "#/$defs/a)" + std::to_string(i + 1) + "\"}";
    levels += "\"a" + std::to_string(i) + R"(": {"anyOf": [)" + next + "," + next + "]},";
  }
  const grammar_source large{kind::json_schema, levels + R"("a25": {"type": "integer"}}})"};
  const auto library = make();
  const auto begin = std::chrono::steady_clock::now();
  const auto first = library->compile(large);
  const auto middle = std::chrono::steady_clock::now();
  ASSERT_FALSE(first);
  for (int i = 0; i < 10; ++i) {
    const auto again = library->compile(large);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error(), first.error());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - middle, middle - begin) << "ten times";
}

} // namespace
} // namespace paceline::grammar
