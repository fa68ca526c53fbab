#include "protocol/wire/harmony_prompt.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

/// The variables behind `members`, as fitted.
boost::json::object fitted(const std::string& members) {
  auto variables = boost::json::parse("{" + members + "}").as_object();
  fit_to_harmony(variables);
  return variables;
}

std::string turns(const std::string& messages) {
  return boost::json::serialize(fitted("\"messages\":[" + messages + "]").at("messages"));
}

TEST(harmony_prompt, has_no_content_that_is_null) {
  EXPECT_EQ(turns(R"({"role":"assistant","content":null,"tool_calls":[{"id":"a"}]})"),
            R"([{"role":"assistant","tool_calls":[{"id":"a"}]}])");
  EXPECT_EQ(turns(R"({"role":"user","content":"x"})"), R"([{"role":"user","content":"x"}])");
}

TEST(harmony_prompt, puts_each_call_in_front_of_its_result) {
  EXPECT_EQ(
      turns(
          R"({"role":"assistant","content":null,"thinking":"t","reasoning_content":"t","tool_calls":[{"id":"a"},{"id":"b"}]},
                     {"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a","content":"1"},
                     {"role":"tool","tool_call_id":"c","content":"3"},{"role":"user","content":"x"})"),
      R"([{"role":"assistant","tool_calls":[{"id":"a"}],"thinking":"t","reasoning_content":"t"},)"
      R"({"role":"tool","tool_call_id":"a","content":"1"},{"role":"assistant","tool_calls":[{"id":"b"}]},)"
      R"({"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"c","content":"3"},)"
      R"({"role":"user","content":"x"}])");
}

TEST(harmony_prompt, has_no_thoughts_beside_content_and_a_call) {
  EXPECT_EQ(turns(R"({"role":"assistant","content":"c","thinking":"t","tool_calls":[{"id":"a"}]})"),
            R"([{"role":"assistant","content":"c","tool_calls":[{"id":"a"}]}])");
  EXPECT_EQ(turns(R"({"role":"assistant","content":"c","thinking":"t"})"),
            R"([{"role":"assistant","content":"c","thinking":"t"}])");
}

TEST(harmony_prompt, describes_every_tool) {
  const auto variables = fitted(
      R"("messages":[],"tools":[{"function":{"name":"f"}},{"function":{"name":"g","description":"d"}}])");
  EXPECT_EQ(boost::json::serialize(variables.at("tools")),
            R"([{"function":{"name":"f","description":""}},{"function":{"name":"g","description":"d"}}])");
}

} // namespace
} // namespace paceline::wire
