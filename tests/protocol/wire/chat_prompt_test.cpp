#include "protocol/wire/chat_prompt.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

TEST(template_variables, hold_what_templates_expect) {
  chat_prompt prompt;
  prompt.messages.push_back({"user", "hi", "", {}, ""});
  prompt.messages.push_back({"assistant", std::nullopt, "", {{"c1", "f", R"({"x":1})"}}, ""});
  prompt.messages.push_back({"tool", "42", "", {}, "c1"});
  EXPECT_EQ(boost::json::serialize(template_variables(prompt)),
            R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,)"
            R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"}],"add_generation_prompt":true})");
}

TEST(template_variables, have_thoughts_under_both_names) {
  chat_prompt prompt;
  prompt.messages.push_back({"assistant", "x", "", {}, "", "hm"});
  prompt.reasoning_effort = "low";
  EXPECT_EQ(boost::json::serialize(template_variables(prompt)),
            R"({"messages":[{"role":"assistant","content":"x","reasoning_content":"hm","thinking":"hm"}],)"
            R"("add_generation_prompt":true,"reasoning_effort":"low"})");
}

TEST(template_variables, leave_out_what_the_client_did_not_set) {
  chat_prompt prompt;
  auto variables = template_variables(prompt);
  EXPECT_FALSE(variables.contains("tools"));
  EXPECT_FALSE(variables.contains("enable_thinking"));
  prompt.enable_thinking = false;
  prompt.tools = R"([{"type":"function"}])";
  variables = template_variables(prompt);
  EXPECT_EQ(variables["enable_thinking"], false);
  EXPECT_TRUE(variables["tools"].is_array());
}

} // namespace
} // namespace paceline::wire
