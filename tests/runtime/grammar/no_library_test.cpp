#include "runtime/grammar/grammar_compiler.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

namespace paceline::grammar {
namespace {

TEST(without_a_library, a_grammar_is_refused_with_the_reason) {
  const auto vocabulary = *tokenizer::tokenizer::from_vocabulary(test::make_vocabulary(test::tiny_bpe{}));
  const auto made = make_compiler(vocabulary, 300, {})->compile({grammar_source::kind::regex, "a"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), errc::unsupported);
  EXPECT_NE(made.error().message().find("docs/dependencies.md"), std::string::npos);
}

} // namespace
} // namespace paceline::grammar
