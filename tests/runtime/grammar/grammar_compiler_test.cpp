#include "runtime/grammar/grammar_compiler.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

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

} // namespace
} // namespace paceline::grammar
