#include "runtime/grammar/schema_grammar.hpp"

#include <gtest/gtest.h>

#include <string>

namespace paceline::grammar {
namespace {

struct refused {
  const char* schema;
  errc code;
  const char* place;
};

TEST(schema, a_keyword_that_is_not_enforced_is_refused_with_its_place) {
  const refused cases[] = {
      {R"({"uniqueItems": true})", errc::unsupported, "#/uniqueItems"},
      {R"({"properties": {"a": {"items": {"uniqueItems": true}}}})", errc::unsupported,
       "#/properties/a/items/uniqueItems"},
      {R"({"contains": {"format": "date"}, "maxContains": 2})", errc::unsupported, "#/maxContains"},
      {R"({"contains": {}, "minContains": 2000})", errc::unsupported, "#/contains"},
      {R"({"items": {"type": "string"}, "uniqueItems": true})", errc::unsupported, "#/uniqueItems"},
      {R"({"$ref": "#x", "$defs": {"a": {"$id": "a", "$anchor": "x"}}})", errc::invalid_argument, "#/$ref"},
      {R"({"$defs": {"a": {"$id": "a"}, "b": {"$id": "a"}}})", errc::invalid_argument, "#/$defs/b/$id"},
      {R"({"$id": "http://x/a", "$defs": {"b": {"$id": "b/", "$ref": "a"}}, "$ref": "b/"})",
       errc::unsupported, "#/$defs/b/$ref"},
      {R"({"$ref": "other.json"})", errc::unsupported, "#/$ref"},
      {R"({"$ref": "#/$defs/x"})", errc::invalid_argument, "#/$ref"},
      {R"({"type": "string", "format": "regex"})", errc::unsupported, "#/format"},
      {R"x({"type": "string", "pattern": "(?=a)"})x", errc::unsupported, "#/pattern"},
      {R"({"type": "string", "pattern": "^(ab)*$", "maxLength": 3000})", errc::unsupported, "#/pattern"},
      {R"({"not": {"additionalProperties": false}})", errc::unsupported, "#/not"},
      {R"({"if": {"format": "date"}, "then": false})", errc::unsupported, "#/if"},
      {R"({"oneOf": [{"format": "date"}, {"format": "time"}]})", errc::unsupported, "#/oneOf"},
      {R"({"type": "number", "multipleOf": 0.12345678})", errc::unsupported, "#/multipleOf"},
      {R"({"type": "number", "multipleOf": 7919})", errc::unsupported, "#/multipleOf"},
      {R"({"items": [{}], "additionalItems": false})", errc::invalid_argument, "#/items"},
      {R"({"dependencies": {}})", errc::unsupported, "#/dependencies"},
      {R"({"properties": {"a~/b": {"type": "text"}}})", errc::invalid_argument, "#/properties/a~0~1b/type"},
      {R"({"minLength": -1})", errc::invalid_argument, "#/minLength"},
      {R"({"type": "string", "minLength": 129})", errc::unsupported, "#/minLength"},
      {R"({"required": "a"})", errc::invalid_argument, "#/required"},
      {R"({"type": "object", "minProperties": 3})", errc::unsupported, "#/minProperties"},
      {R"(false)", errc::invalid_argument, "#"},
      {R"({"type": "string", "enum": [1, 2]})", errc::invalid_argument, "#"},
      {R"([])", errc::invalid_argument, "#"},
      {R"({)", errc::invalid_argument, ""},
      {R"({"\u0001types": 3})", errc::invalid_argument, ""},
  };
  for (const auto& one : cases) {
    const auto ebnf = schema_to_ebnf(one.schema);
    ASSERT_FALSE(ebnf) << one.schema;
    EXPECT_EQ(ebnf.error().code(), one.code) << ebnf.error().message();
    const auto begin = std::string("schema: ") + one.place;
    EXPECT_TRUE(ebnf.error().message().starts_with(*one.place == 0 ? begin : begin + ": "))
        << ebnf.error().message();
  }
}

TEST(schema, annotations_and_unknown_keywords_are_allowed) {
  EXPECT_TRUE(
      schema_to_ebnf(R"({"title": "t", "description": "d", "default": {"uniqueItems": true}, "examples": [1],
    "$comment": "c", "deprecated": true, "readOnly": true, "x-own": 1, "type": "integer"})"));
}

TEST(schema, hostile_ones_end_in_an_error) {
  std::string nested = "{}";
  for (int i = 0; i < 40; ++i) nested = R"({"items": )" + nested + "}";
  std::string product = R"({"allOf": [)";
  for (int i = 0; i < 30; ++i)
    product += std::string(i > 0 ? "," : "") + R"({"anyOf": [{"type": "string"}, {"minimum": )" +
               std::to_string(i) + "}]}";
  product += "]}";
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 5000; ++i)
    chain += "\"d" + std::to_string(i) + R"(": {"$ref": "#/$defs/d)" + std::to_string(i + 1) + R"("},)";
  chain += R"("d5000": {}}})";
  std::string names = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 3000; ++i) names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\": {}";
  names += "}}";
  // Each resource is entered with all dynamic anchors of those before it.
  std::string scopes = R"({"$ref": "r0", "$defs": {)";
  for (int i = 0; i < 800; ++i) {
    const auto number = std::to_string(i);
    scopes += (i > 0 ? ",\"" : "\"") + number + R"(": {"$id": "r)" + number + R"(", "$dynamicAnchor": "a)" +
              number + R"(", "properties": {"x": {"$ref": "r)" + std::to_string((i + 1) % 800) + R"("}}})";
  }
  scopes += "}}";
  for (const auto& text : {std::string(60'000, '['), nested, product, chain, names, scopes,
                           std::string(R"({"type": "string", "minLength": 1000000000})"),
                           std::string(R"({"minimum": 1e400})"), std::string("\0\1", 2)})
    EXPECT_FALSE(schema_to_ebnf(text)) << text.substr(0, 60);
  // These refer to themselves and are satisfiable.
  for (const char* text :
       {R"({"$ref": "#"})", R"({"allOf": [{"$ref": "#"}]})",
        R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", R"({"properties": {"next": {"$ref": "#"}}})"})
    EXPECT_TRUE(schema_to_ebnf(text)) << text;
}

/// Steps of the work for a schema, which may be refused.
std::size_t steps_for(const std::string& schema) {
  std::size_t steps = 0;
  static_cast<void>(schema_to_ebnf(schema, &steps));
  return steps;
}

TEST(schema, work_grows_as_the_schema_does) {
  const auto two_lists = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::to_string(i);
    return R"({"allOf": [{"enum": [)" + list + R"(]}, {"enum": [)" + list + "]}]}";
  };
  EXPECT_LT(steps_for(two_lists(4'000)), 3 * steps_for(two_lists(2'000)));
  const auto required = [](int count) {
    std::string names;
    for (int i = 0; i < count; ++i) names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\"";
    return R"({"type": "object", "required": [)" + names + R"(], "additionalProperties": {"type": "null"}})";
  };
  EXPECT_LT(steps_for(required(1'200)), 3 * steps_for(required(600)));
  std::string fan_out = R"({"$ref": "#/$defs/a0", "$defs": {)";
  for (int i = 0; i < 25; ++i) {
    const auto next = R"({"$ref": "#/$defs/a)" + std::to_string(i + 1) + "\"}";
    fan_out += "\"a" + std::to_string(i) + R"(": {"anyOf": [)" + next + "," + next + "]},";
  }
  fan_out += R"("a25": {"type": "integer"}}})";
  EXPECT_LE(steps_for(fan_out), 200'200U);
  EXPECT_LE(steps_for(R"({"enum": [1], "not": )" + fan_out + "}"), 200'100U);
}

} // namespace
} // namespace paceline::grammar
