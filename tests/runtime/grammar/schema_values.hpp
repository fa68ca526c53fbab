#pragma once

#include "runtime/grammar/grammar_compiler.hpp"
#include "tests/support/tiny_vocabulary.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::grammar::test_values {

struct values_of {
  const char* schema;
  std::vector<std::string> allowed;
  std::vector<std::string> refused;
};

class schema_values : public testing::Test {
 protected:
  bool allows(const token_constraint& constraint, const std::string& text) const {
    const auto cursor = constraint.begin();
    const auto tokens = *vocabulary.encode(text, {.add_special = false, .parse_special = false});
    const token_id end = *vocabulary.eos();
    return cursor->num_allowed({}, {}, tokens) == tokens.size() &&
           cursor->num_allowed(tokens, {}, {&end, 1}) == 1;
  }

  void check(const std::vector<values_of>& cases) const {
    for (const auto& one : cases) {
      const auto made = library->compile({grammar_source::kind::json_schema, one.schema});
      ASSERT_TRUE(made) << one.schema << ": " << made.error().message();
      for (const auto& text : one.allowed) EXPECT_TRUE(allows(**made, text)) << one.schema << "\n" << text;
      for (const auto& text : one.refused) EXPECT_FALSE(allows(**made, text)) << one.schema << "\n" << text;
    }
  }

  tokenizer::tokenizer vocabulary =
      *tokenizer::tokenizer::from_vocabulary(test::make_vocabulary(test::tiny_bpe{}));
  std::unique_ptr<compiler> library =
      make_compiler(vocabulary, static_cast<std::uint32_t>(vocabulary.size()), {*vocabulary.eos()});
};

} // namespace paceline::grammar::test_values
