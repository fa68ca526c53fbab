#include "protocol/wire/mistral_prompt.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>

namespace paceline::wire {
namespace {

/// The ids of a call and of its result, as fitted.
std::pair<std::string, std::string> fitted_ids(const std::string& call, const std::string& result) {
  auto variables =
      boost::json::parse(
          R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":")" + call +
          R"("}]},{"role":"tool","tool_call_id":")" + result + R"("}]})")
          .as_object();
  fit_to_mistral(variables);
  const auto& messages = variables.at("messages").as_array();
  return {std::string(messages.at(1).at("tool_calls").at(0).at("id").as_string()),
          std::string(messages.at(2).at("tool_call_id").as_string())};
}

TEST(mistral_prompt, has_ids_of_nine_letters_and_digits) {
  std::set<std::string> all;
  for (const std::string id :
       {"call_00112233445566778899aabbccddeeff", "call_00112233445566778899aabbccddeefe", "toolu_1", "",
        "with-sign", "ZZZZZZZZZZ"}) {
    const auto [call, result] = fitted_ids(id, id);
    EXPECT_EQ(call.size(), 9U) << id;
    EXPECT_TRUE(std::ranges::all_of(call, [](unsigned char c) { return std::isalnum(c) != 0; })) << call;
    EXPECT_EQ(call, result) << "the result names its call";
    all.insert(call);
  }
  EXPECT_EQ(all.size(), 6U);
}

TEST(mistral_prompt, keeps_ids_that_the_templates_accept) {
  EXPECT_EQ(fitted_ids("aB3456789", "probe0001"),
            std::pair(std::string("aB3456789"), std::string("probe0001")));
}

/// Else an earlier turn's text would change, and its cells could not be reused.
TEST(mistral_prompt, an_id_is_the_same_in_every_process) {
  EXPECT_EQ(fitted_ids("call_1", "call_1").first, "9gD2Dimct");
}

} // namespace
} // namespace paceline::wire
