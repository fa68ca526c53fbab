#include "runtime/grammar/schema_grammar.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace paceline::grammar {
namespace {

/// The number of steps for a schema, which may be refused.
std::size_t steps_for(const std::string& schema) {
  schema_cost cost;
  static_cast<void>(schema_to_ebnf(schema, &cost));
  return cost.steps;
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

TEST(schema, what_a_schema_costs_is_told) {
  schema_cost one;
  ASSERT_TRUE(schema_to_ebnf(R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 20})", &one));
  EXPECT_GT(one.steps, 0U);
  EXPECT_GT(one.automaton_work, 0U);
  EXPECT_GE(one.rules, 20U);
  EXPECT_GE(one.places, 20U);
  EXPECT_GT(one.bytes, 200U);
  EXPECT_TRUE(one.is_within(most_schema_cost));
  schema_cost many;
  for (int i = 0; i < 20; ++i) many += one;
  EXPECT_EQ(many.places, 20 * one.places);
  EXPECT_FALSE(many.is_within(most_schema_cost));
}

TEST(schema, texts_with_the_same_conditions_cost_once) {
  const auto object = [](int count, const std::string& text) {
    std::string out = R"({"type": "object", "properties": {)";
    for (int i = 0; i < count; ++i) out += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\": " + text;
    return out + R"(}, "additionalProperties": false})";
  };
  const std::string uuid =
      R"({"type": "string", "format": "uuid", "pattern": "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"})";
  for (const std::string& text :
       {uuid, std::string(R"({"type": "string", "minLength": 20, "maxLength": 100})"),
        std::string(R"({"type": "string", "minLength": 90})"),
        std::string(R"({"type": "string", "not": {"enum": ["a", "bc"]}, "pattern": "^[a-z]{1,60}$"})")}) {
    schema_cost once;
    schema_cost often;
    EXPECT_TRUE(schema_to_ebnf(object(1, text), &once)) << text;
    const auto made = schema_to_ebnf(object(12, text), &often);
    EXPECT_TRUE(made) << text << ": " << made.error().message();
    EXPECT_GT(once.places, 0U) << text;
    EXPECT_EQ(often.places, once.places) << text;
  }
  schema_cost both;
  ASSERT_TRUE(schema_to_ebnf(
      R"({"prefixItems": [{"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 9},
    {"type": "string", "pattern": "^a?$"}, {"type": "string", "not": {"pattern": "^a?$"}}]})",
      &both));
  EXPECT_GE(both.places, 5U + 9U + 2U + 2U) << "different conditions";
}

TEST(schema, what_is_made_from_a_schema_counts) {
  std::string names;
  for (int i = 0; i < 10'000; ++i) names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\"";
  EXPECT_GT(steps_for(R"({"type": "string", "dependentRequired": {"a": [)" + names + "]}}"), 10'000U);
  std::string alternatives;
  for (int i = 0; i < 10'000; ++i) alternatives += std::string(i > 0 ? "," : "") + R"({"type": "array"})";
  EXPECT_GT(steps_for(R"({"anyOf": [)" + alternatives + R"(], "type": "string"})"), 10'000U);
  std::string same;
  for (int i = 0; i < 10'000; ++i) same += i > 0 ? ",true" : "true";
  EXPECT_GT(steps_for(R"({"allOf": [)" + same + "]}"), 10'000U);
  // Copies of a resource for each scope, with all its texts.
  std::string scopes = R"({"$id": "http://x/", "$defs": {"long": {"$id": "long", "description": ")" +
                       std::string(100'000, 'x') + "\"}";
  for (int i = 0; i < 40; ++i) {
    const auto number = std::to_string(i);
    scopes += R"(,"s)" + number + R"(": {"$id": "s)" + number + R"(", "$dynamicAnchor": "a)" + number +
              R"(", "$ref": "long"})";
  }
  scopes += R"(}, "allOf": [)";
  for (int i = 0; i < 40; ++i)
    scopes += (i > 0 ? R"(,{"$ref": "s)" : R"({"$ref": "s)") + std::to_string(i) + "\"}";
  EXPECT_FALSE(schema_to_ebnf(scopes + "]}"));
}

} // namespace
} // namespace paceline::grammar
