#include "runtime/grammar/schema_grammar.hpp"

#include "runtime/grammar/endless_rules.hpp"
#include "runtime/grammar/schema_algebra.hpp"
#include "runtime/grammar/schema_document.hpp"
#include "runtime/grammar/schema_keywords.hpp"
#include "runtime/grammar/text_automaton.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

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
      // A value of "const" is not a schema, so it was not checked as one.
      {R"({"$ref": "#/const", "const": {"type": "string"}})", errc::invalid_argument, "#/$ref"},
      {R"({"$ref": "#/enum/0/a", "enum": [{"a": {}}]})", errc::invalid_argument, "#/$ref"},
      {R"({"items": {"$ref": "#/default"}, "default": {}})", errc::invalid_argument, "#/items/$ref"},
      {R"({"$ref": "#/examples/0", "examples": [true]})", errc::invalid_argument, "#/$ref"},
      {R"({"$ref": "#/title", "title": "t"})", errc::invalid_argument, "#/title"},
      {R"({"type": "string", "format": "regex"})", errc::unsupported, "#/format"},
      {R"({"type": ["integer", "string"], "format": "uri-reference"})", errc::unsupported, "#/format"},
      {R"({"format": "relative-json-pointer"})", errc::unsupported, "#/format"},
      {R"({"type": "string", "format": "uri", "minLength": 8})", errc::unsupported, "#/format"},
      {R"x({"type": "string", "pattern": "(?=a)"})x", errc::unsupported, "#/pattern"},
      {R"({"type": "string", "pattern": "^(ab)*$", "maxLength": 3000})", errc::unsupported, "#/pattern"},
      {R"({"not": {"additionalProperties": false}})", errc::unsupported, "#/not"},
      {R"({"if": {"format": "date"}, "then": false})", errc::unsupported, "#/if"},
      {R"({"oneOf": [{"format": "date"}, {"format": "time"}]})", errc::unsupported, "#/oneOf"},
      // The member tells objects apart, but both alternatives allow all other values.
      {R"({"oneOf": [{"properties": {"k": {"const": 1}}, "additionalProperties": false},
           {"properties": {"k": {"const": 2}}, "additionalProperties": false}]})",
       errc::unsupported, "#/oneOf"},
      {R"({"anyOf": [{"const": 1}, {"enum": 2}]})", errc::invalid_argument, "#/anyOf/1/enum"},
      {R"({"type": "number", "multipleOf": 0.12345678})", errc::unsupported, "#/multipleOf"},
      {R"({"type": "integer", "minimum": 1e300})", errc::unsupported, "#/minimum"},
      {R"({"minimum": -1e300, "exclusiveMaximum": -1e300})", errc::unsupported, "#/exclusiveMaximum"},
      {R"({"type": "number", "maximum": 0.12345678})", errc::unsupported, "#/maximum"},
      {R"({"type": "number", "multipleOf": 7919})", errc::unsupported, "#/multipleOf"},
      {R"({"type": "number", "multipleOf": 0.01, "minimum": 100000000000000, "maximum": 100000000000001})",
       errc::unsupported, "#/multipleOf"},
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

TEST(schema, one_whose_values_have_no_end_is_refused) {
  const refused cases[] = {
      {R"({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})",
       errc::invalid_argument, "#"},
      {R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})", errc::invalid_argument, "#"},
      {R"({"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1})", errc::invalid_argument, "#"},
      {R"({"type": "array", "contains": {"$ref": "#"}, "items": {"$ref": "#"}})", errc::invalid_argument,
       "#"},
      {R"({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {
           "b": {"type": "object", "properties": {"c": {"$ref": "#/$defs/c"}}, "required": ["c"]},
           "c": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 2}}})",
       errc::invalid_argument, "#/$defs/"},
      {R"({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x"}], "$defs": {
           "x": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"]}}})",
       errc::invalid_argument, "#/$defs/x"},
  };
  for (const auto& [text, code, place] : cases) {
    const auto made = schema_to_ebnf(text);
    ASSERT_FALSE(made) << text << "\n" << *made;
    EXPECT_EQ(made.error().code(), code) << text;
    EXPECT_NE(made.error().message().find(place), std::string::npos) << made.error().message();
    EXPECT_NE(made.error().message().find("without end"), std::string::npos) << made.error().message();
  }
  for (
      const char* const text : {
          R"({"type": "object", "properties": {"next": {"$ref": "#"}}})",
          R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})",
          R"({"type": "array", "items": {"$ref": "#"}})",
          R"({"type": ["array", "string"], "items": {"$ref": "#"}, "minItems": 1})",
          R"({"type": "object", "additionalProperties": {"$ref": "#"}})",
          // Rules of parts that are left out do not count.
          R"({"properties": {"a": {"$ref": "#/$defs/b"}}, "maxProperties": 0, "type": "object", "$defs": {
                "b": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]}}})",
      }) {
    const auto made = schema_to_ebnf(text);
    EXPECT_TRUE(made) << text << ": " << made.error().message();
  }
}

TEST(endless_rules, are_those_that_need_themselves_in_every_alternative) {
  const auto found = [](const char* text) { return endless_rules(text, "a"); };
  using names = std::vector<std::string>;
  EXPECT_EQ(found("a ::= \"x\" a\n"), (names{"a"}));
  EXPECT_EQ(found("a ::= \"x\" a | \"y\"\n"), (names{}));
  EXPECT_EQ(found("a ::= \"x\" a?\nb ::= a* b{0,3} c\nc ::= (\"|\" [)|] | c) d\nd ::= \"\"\n"), (names{}));
  EXPECT_EQ(found("a ::= b+ | c{1,2}\nb ::= a\nc ::= \"\\\"\" b | ( b | a ) outside\nd ::= outside\n"),
            (names{"a", "b", "c"}));
  EXPECT_EQ(found("a ::= [\\]|] a | \"(\" a\n"), (names{"a"})) << "marks within texts and classes";
}

TEST(schema, annotations_and_unknown_keywords_are_allowed) {
  EXPECT_TRUE(
      schema_to_ebnf(R"({"title": "t", "description": "d", "default": {"uniqueItems": true}, "examples": [1],
    "$comment": "c", "deprecated": true, "readOnly": true, "x-own": 1, "type": "integer"})"));
}

TEST(schema, formats_limit_texts_alone_and_only_if_the_specification_defines_them) {
  for (const char* text :
       {R"({"type": "integer", "format": "int64"})", R"({"type": ["number", "null"], "format": "regex"})",
        R"({"type": "string", "format": "password"})", R"({"format": "byte"})",
        R"({"not": {"type": "integer", "format": "int32"}})",
        R"({"not": {"type": "null", "format": "date"}})",
        R"({"allOf": [{"format": "binary"}, {"format": "date"}, {"format": "float"}], "type": "string"})",
        R"({"enum": ["a", 1], "format": "x"})"}) {
    const auto made = schema_to_ebnf(text);
    EXPECT_TRUE(made) << text << ": " << made.error().message();
  }
  const auto any = schema_to_ebnf(R"({"type": "string"})");
  EXPECT_EQ(*schema_to_ebnf(R"({"type": "string", "format": "password"})"), *any);
  EXPECT_NE(*schema_to_ebnf(R"({"type": "string", "allOf": [{"format": "password"}, {"format": "date"}]})"),
            *any);
}

/// Number of characters of the shortest text that a pattern matches.
std::uint32_t shortest_match(std::string_view pattern) {
  const auto regex = parse_regex(pattern);
  std::size_t work = 1'000'000;
  const auto automaton = text_automaton::make(
      {{.regex = &*regex}}, [](std::uint64_t obeyed) { return obeyed == 1; }, 256, work);
  const auto& states = automaton->states();
  std::set<std::uint32_t> now{0};
  for (std::uint32_t length = 0; !now.empty(); ++length) {
    std::set<std::uint32_t> next;
    for (const auto at : now) {
      if (states[at].is_wanted) return length;
      for (const auto& edge : states[at].edges) next.insert(edge.to);
    }
    now = std::move(next);
  }
  return unbounded;
}

TEST(schema, the_shortest_text_of_a_format_has_its_least_length) {
  for (const char* name : {"date", "time", "date-time", "duration", "email", "idn-email", "hostname",
                           "idn-hostname", "ipv4", "ipv6", "uuid", "uri", "iri", "json-pointer"}) {
    const auto* format = format_named(name);
    ASSERT_NE(format, nullptr) << name;
    EXPECT_EQ(format->min_length, shortest_match(format->pattern)) << name;
  }
}

TEST(schema, more_than_32_conditions_on_a_text_are_refused) {
  const auto patterns = [](int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += std::string(i > 0 ? "," : "") + R"({"pattern": "x"})";
    return R"({"type": "string", "allOf": [)" + all + "]}";
  };
  EXPECT_TRUE(schema_to_ebnf(patterns(32)));
  for (const int count : {33, 70}) {
    const auto place = "/allOf/" + std::to_string(count - 1) + "/pattern: ";
    const auto alone = schema_to_ebnf(patterns(count));
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code(), errc::unsupported);
    EXPECT_TRUE(alone.error().message().starts_with("schema: #" + place)) << alone.error().message();
    const auto member = schema_to_ebnf(R"({"type": "object", "properties": {"a": )" + patterns(count) + "}}");
    ASSERT_FALSE(member) << "an optional member must not be left out silently";
    EXPECT_TRUE(member.error().message().starts_with("schema: #/properties/a" + place))
        << member.error().message();
  }
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
  // Each resource is entered with the dynamic anchors of all previous ones.
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

/// Arrays nested `count` times, by references.
std::string nested(std::size_t count) {
  std::string text = R"({"$ref": "#/$defs/1", "$defs": {)";
  for (std::size_t i = 1; i <= count; ++i)
    text += "\"" + std::to_string(i) + R"(": {"type": "array", "items": )" +
            (i < count ? R"({"$ref": "#/$defs/)" + std::to_string(i + 1) + "\"}" : "true") + "},";
  return text + R"("end": {}}})";
}

TEST(schema, levels_above_500_are_refused) {
  EXPECT_TRUE(schema_to_ebnf(nested(500)));
  for (const std::size_t count : {501U, 100'000U}) {
    const auto ebnf = schema_to_ebnf(nested(count));
    ASSERT_FALSE(ebnf) << count;
    EXPECT_EQ(ebnf.error().code(), errc::unsupported);
    EXPECT_TRUE(ebnf.error().message().ends_with("schemas within each other go too deep"))
        << ebnf.error().message();
  }
}

TEST(schema, rewritten_parts_are_made_once) {
  auto document =
      *schema_document::parse(R"({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {}},
    "not": {"required": ["x", "y"]}, "if": {"minimum": 3}, "then": {"maximum": 5},
    "oneOf": [{"required": ["d"]}, {"required": ["e"]}]})");
  schema_algebra algebra(document);
  const auto schemas = [&] {
    std::vector<schema_ptr> out;
    for (const auto& alternative : algebra.alternatives({document.root()}))
      for (const auto& one : alternative) out.push_back(one.schema);
    return out;
  };
  const auto first = schemas();
  ASSERT_FALSE(algebra.failure()) << algebra.failure()->message();
  EXPECT_GT(first.size(), 10U);
  EXPECT_EQ(schemas(), first);
}

TEST(schema, a_copied_resource_keeps_its_identifiers) {
  // The list is copied for the scope of the numbers. It contains a resource with the same relative name.
  const auto ebnf = schema_to_ebnf(R"({"$id": "http://x/", "$ref": "numbers", "$defs": {
    "n": {"$id": "numbers", "$dynamicAnchor": "any", "$ref": "list/"},
    "l": {"$id": "list/", "type": "object", "required": ["v"], "properties": {"v": {"$ref": "#/$defs/v"}},
      "$defs": {"v": {"const": "outer"}, "inner": {"$id": "list/", "$defs": {"v": {"const": "inner"}}}}}}})");
  ASSERT_TRUE(ebnf) << ebnf.error().message();
  EXPECT_NE(ebnf->find("outer"), std::string::npos);
  EXPECT_EQ(ebnf->find("inner"), std::string::npos);
}

TEST(schema, whole_numbers_are_compared_exactly) {
  const auto ebnf = schema_to_ebnf(
      R"({"enum": [9007199254740992, 9007199254740993, 18446744073709551615, 18446744073709551614],
        "minimum": 9007199254740993, "exclusiveMaximum": 18446744073709551615})");
  ASSERT_TRUE(ebnf) << ebnf.error().message();
  EXPECT_NE(ebnf->find("9007199254740993"), std::string::npos);
  EXPECT_NE(ebnf->find("18446744073709551614"), std::string::npos);
  EXPECT_EQ(ebnf->find("9007199254740992"), std::string::npos);
  EXPECT_EQ(ebnf->find("18446744073709551615"), std::string::npos);
  // Both are the same number with different spellings.
  EXPECT_TRUE(schema_to_ebnf(R"({"const": 1e19, "enum": [10000000000000000000]})"));
  EXPECT_TRUE(schema_to_ebnf(R"({"const": -9223372036854775808, "enum": [-9.223372036854775808e18]})"));
  EXPECT_FALSE(schema_to_ebnf(R"({"const": 10000000000000000001, "enum": [1e19]})"));
}

} // namespace
} // namespace paceline::grammar
