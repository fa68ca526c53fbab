#include "protocol/wire/output/output_format.hpp"

#include "output_reading.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace paceline::wire {
namespace {

TEST(tool_signatures, null_of_an_optional_text_is_null) {
  output_plan plan;
  plan.calls = call_syntax::qwen3_coder;
  plan.tools = std::make_shared<const tool_signatures>(
      R"([{"function":{"name":"f","parameters":{"properties":{"a":{"type":["string","null"]},"b":{"type":"string"}}}}}])");
  const auto told = [&](const std::string& a, const std::string& b) {
    return test::told(test::read(plan, {"<tool_call>\n<function=f>\n<parameter=a>\n" + a +
                                        "\n</parameter>\n<parameter=b>\n" + b +
                                        "\n</parameter>\n</function>\n</tool_call>"}));
  };
  EXPECT_EQ(told("null", "null"), R"(call_0 f({"a": null, "b": "null"}))");
  EXPECT_EQ(told("None", "None"), R"(call_0 f({"a": null, "b": "None"}))");
  EXPECT_EQ(told("1", "1"), R"(call_0 f({"a": "1", "b": "1"}))");
}

TEST(tool_signatures, follow_references) {
  const tool_signatures tools(R"([{"function":{"name":"f","parameters":{
    "$defs":{"Size":{"enum":["1","2"],"type":"string"},"Number":{"type":"integer"},"Link":{"$ref":"#/$defs/Size"},
      "Loop":{"anyOf":[{"$ref":"#/$defs/Loop"},{"$ref":"#/$defs/Loop"}]}},
    "definitions":{"Word":{"type":["string","null"]}},
    "properties":{"a":{"$ref":"#/$defs/Size"},"b":{"$ref":"#/definitions/Word"},"c":{"$ref":"#/$defs/Link"},
      "d":{"allOf":[{"description":"-"},{"$ref":"#/$defs/Size"}]},"e":{"anyOf":[{"$ref":"#/$defs/Size"},{"type":"null"}]},
      "f":{"$ref":"#/$defs/Number"},"g":{"$ref":"#/$defs/Loop"},"h":{"$ref":"#/$defs/Lost"},"i":{"$ref":1},
      "j":{"anyOf":[{"$ref":"#/$defs/Lost"},{"type":"string"}]}}}}}])");
  for (const char* const text : {"a", "c", "d"})
    EXPECT_EQ(tools.values_of("f", text), tool_signatures::value::text) << text;
  for (const char* const text : {"b", "e"})
    EXPECT_EQ(tools.values_of("f", text), tool_signatures::value::text_or_null) << text;
  for (const char* const other : {"f", "g", "h", "i", "j"})
    EXPECT_EQ(tools.values_of("f", other), tool_signatures::value::any) << other;
}

TEST(tool_signatures, read_a_definition_once_however_often_it_is_named) {
  std::string definitions, branches;
  for (int i = 0; i < 100; ++i) {
    definitions += (i > 0 ? R"(,"d)" : R"("d)") + std::to_string(i) + R"(":{"anyOf":[BRANCHES]})";
    branches += (i > 0 ? R"(,{"$ref":"#/$defs/d)" : R"({"$ref":"#/$defs/d)") + std::to_string(i) + "\"}";
  }
  for (std::size_t at = 0; (at = definitions.find("BRANCHES", at)) != std::string::npos;
       at += branches.size())
    definitions.replace(at, 8, branches); // 100 ^ 4 paths
  const tool_signatures tools(R"([{"function":{"name":"f","parameters":{"$defs":{)" + definitions +
                              R"(},"properties":{"a":{"$ref":"#/$defs/d0"}}}}}])");
  EXPECT_EQ(tools.values_of("f", "a"), tool_signatures::value::any);
}

} // namespace
} // namespace paceline::wire
