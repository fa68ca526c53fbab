#include "protocol/wire/fields/request_schema.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gtest/gtest.h>

#include <string>

namespace paceline::wire {
namespace {

namespace json = boost::json;

json::object schema_of(request_kinds kind) {
  json_writer out;
  write_request_schema(out, kind);
  return json::parse(out.take()).as_object();
}

std::string property(request_kinds kind, const char* path) {
  auto schema = schema_of(kind);
  auto found = schema.at("properties").at_pointer(path).as_object();
  EXPECT_TRUE(found.contains("description")) << path;
  found.stable_erase("description");
  return json::serialize(found);
}

TEST(request_schema, has_type_bounds_and_default_of_each_field) {
  EXPECT_EQ(property(in::chat, "/temperature"),
            R"({"type":["number","null"],"minimum":0,"maximum":2,"default":1})");
  EXPECT_EQ(property(in::chat, "/repetition_penalty"),
            R"({"type":["number","null"],"minimum":1E-2,"maximum":100,"default":1})");
  EXPECT_EQ(property(in::chat, "/speculation/properties/lenience"),
            R"({"type":["number","null"],"exclusiveMinimum":0,"maximum":1,"default":5E-1})");
  EXPECT_EQ(property(in::completions, "/logprobs"), R"({"type":["integer","null"],"minimum":0,"maximum":5})");
  EXPECT_EQ(property(in::chat, "/logprobs"), R"({"type":["boolean","null"],"default":false})");
  EXPECT_EQ(property(in::completions, "/cache_salt"),
            R"({"type":["string","null"],"minLength":1,"maxLength":512})");
  EXPECT_EQ(property(in::responses, "/truncation"), R"({"enum":["disabled",null],"default":"disabled"})");
  EXPECT_EQ(
      property(in::chat, "/messages/items/properties/tool_calls/items/properties/function/properties/name"),
      R"({"type":"string","minLength":1,"maxLength":256})");
}

TEST(request_schema, describes_refused_fields_by_the_values_that_pass) {
  EXPECT_EQ(property(in::completions, "/samplers"), R"({"type":"null"})");
  EXPECT_EQ(property(in::completions, "/mirostat"), R"({"enum":[0,null]})");
  EXPECT_EQ(property(in::completions, "/typical_p"), R"({"type":["number","null"],"minimum":1})");
  EXPECT_EQ(property(in::completions, "/n_keep"), "{}");
}

TEST(request_schema, names_what_is_required_and_accepts_unknown_fields_where_the_parser_does) {
  const auto chat = schema_of(in::chat);
  EXPECT_EQ(json::serialize(chat.at("required")), R"(["messages"])");
  EXPECT_EQ(chat.at("additionalProperties"), true);
  EXPECT_EQ(chat.at("properties").at("chat_template_kwargs").at("additionalProperties"), false);
  EXPECT_EQ(json::serialize(chat.at("properties").at("response_format").at("required")), R"(["type"])");
}

TEST(request_schema, says_that_one_of_two_fields_is_required) {
  EXPECT_EQ(
      json::serialize(schema_of(in::responses).at("anyOf")),
      R"([{"required":["input"],"properties":{"input":{"not":{"type":"null"}}}},)"
      R"({"required":["previous_response_id"],"properties":{"previous_response_id":{"not":{"type":"null"}}}}])");
}

TEST(request_schema, names_the_page_instead_of_a_link) {
  const auto chat = schema_of(in::chat);
  const auto& rule = chat.at("properties").at("speculation").at("properties").at("rule");
  EXPECT_EQ(rule.at("description"), "Which draft tokens are kept (docs/verification.md).");
}

} // namespace
} // namespace paceline::wire
