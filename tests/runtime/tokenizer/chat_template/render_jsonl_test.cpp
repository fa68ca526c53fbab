#include "runtime/tokenizer/chat_template/render_jsonl.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace paceline::tokenizer {
namespace {

TEST(render_jsonl, answers_every_line_in_order_and_counts_the_failed) {
  const auto parsed = chat_template::parse("{{ a.b }}\n{{ '\"' }}");
  ASSERT_TRUE(parsed);
  std::istringstream in("{\"a\": {\"b\": \"é\\n\"}}\n\n{}\nnot json\n[1]\n{\"a\": {\"b\": 1.0}}");
  std::ostringstream out;
  EXPECT_EQ(render_jsonl(in, out, *parsed), 3u);
  EXPECT_EQ(out.str(),
            "\"é\\n\\n\\\"\"\n"
            "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"line 3: chat template:1: 'a' is "
            "undefined\"}}\n"
            "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"line 4: not JSON: syntax error\"}}\n"
            "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"line 5: the template variables must be "
            "a JSON object\"}}\n"
            "\"1.0\\n\\\"\"\n");
}

TEST(render_jsonl, deep_input_is_one_error_and_the_next_line_is_served) {
  const auto parsed = chat_template::parse("{{ x }}");
  ASSERT_TRUE(parsed);
  std::istringstream in("{\"x\": " + std::string(100000, '[') + std::string(100000, ']') +
                        "}\n{\"x\": [[[]]]}\n");
  std::ostringstream out;
  EXPECT_EQ(render_jsonl(in, out, *parsed), 1u);
  EXPECT_TRUE(out.str().ends_with("\n\"[[[]]]\"\n"));
}

} // namespace
} // namespace paceline::tokenizer
