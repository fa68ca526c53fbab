#include "runtime/tokenizer/chat_template/request_variables.hpp"

#include "runtime/tokenizer/chat_template/chat_template.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace paceline::tokenizer {
namespace {

TEST(request_variables, holds_what_transformers_passes_to_a_template) {
  chat_request request;
  request.messages = {boost::json::object{{"role", "user"}, {"content", "Hi"}}};
  request.template_arguments = {{"enable_thinking", false}};
  const auto variables = request_variables(request, {"<s>", "</s>", std::nullopt, std::nullopt});
  ASSERT_TRUE(variables);
  EXPECT_EQ(boost::json::serialize(*variables),
            R"({"messages":[{"role":"user","content":"Hi"}],"tools":null,"documents":null,)"
            R"("add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>","enable_thinking":false})");
}

TEST(request_variables, a_request_cannot_replace_what_the_server_fills_in) {
  for (const char* name :
       {"messages", "tools", "add_generation_prompt", "bos_token", "raise_exception", "tokenize"}) {
    chat_request request;
    request.template_arguments[name] = 1;
    const auto variables = request_variables(request, {});
    ASSERT_FALSE(variables) << name;
    EXPECT_EQ(variables.error().code(), errc::invalid_argument);
    EXPECT_NE(variables.error().message().find(name), std::string::npos);
  }
}

TEST(request_variables, a_template_sees_them) {
  chat_request request;
  request.messages = {boost::json::object{{"role", "user"}, {"content", "Hi"}}};
  request.add_generation_prompt = false;
  const auto parsed = chat_template::parse(
      "{{ bos_token }}{{ messages[0].content }}{{ tools is none }}{{ add_generation_prompt }}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed->render(*request_variables(request, {"<s>", {}, {}, {}})), "<s>HiTrueFalse");
}

} // namespace
} // namespace paceline::tokenizer
