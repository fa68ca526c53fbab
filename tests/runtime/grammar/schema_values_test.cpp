// Which values the grammars of schemas allow.
#include "schema_values.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace paceline::grammar {
namespace {

using test_values::schema_values;

TEST_F(schema_values, references_follow_identifiers_and_anchors) {
  check({
      {R"({"$id": "http://x/root", "$ref": "inner#here", "$defs": {"a": {"$id": "inner", "$defs": {
        "b": {"$anchor": "here", "type": "integer"}}}, "c": {"$anchor": "here", "type": "string"}}})",
       {"1"},
       {"\"a\""}},
      {R"({"$id": "http://x/root", "items": {"$ref": "/list#/$defs/one"}, "type": "array",
        "$defs": {"a": {"$id": "http://x/list", "$defs": {"one": {"const": "o"}}}}})",
       {"[\"o\"]", "[]"},
       {"[1]"}},
      // A name that the outer scope also has refers to the outer one.
      {R"({"$id": "http://x/strings", "$ref": "list", "$defs": {"s": {"$dynamicAnchor": "item", "type": "string"},
        "l": {"$id": "list", "type": "array", "items": {"$dynamicRef": "#item"},
          "$defs": {"any": {"$dynamicAnchor": "item"}}}}})",
       {"[\"a\"]"},
       {"[1]"}},
      {R"({"type": "object", "properties": {"a": {"$ref": "http://x/numbers"}, "b": {"$ref": "http://x/texts"}},
        "$defs": {"n": {"$id": "http://x/numbers", "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "i", "type": "integer"}}},
          "t": {"$id": "http://x/texts", "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "i", "type": "string"}}},
          "l": {"$id": "http://x/list", "type": "array", "items": {"$dynamicRef": "#i"}, "$defs": {"d": {"$dynamicAnchor": "i"}}}}})",
       {R"({"a": [1], "b": ["x"]})"},
       {R"({"a": ["x"]})", R"({"b": [1]})"}},
  });
}

TEST_F(schema_values, items_are_counted) {
  check({
      {R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3})",
       {"[1,1]", "[1,2,1,\"a\",1]"},
       {"[1]", "[]", "[1,1,1,1]", "[1,1,1.0,1]"}},
      {R"({"type": "array", "contains": {"type": "string"}, "maxItems": 2, "prefixItems": [{"type": "integer"}]})",
       {"[1,\"a\"]"},
       {"[1]", "[\"a\"]", "[1,2,\"a\"]"}},
      {R"({"type": "array", "contains": {"type": "string"}, "prefixItems": [true], "unevaluatedItems": false})",
       {"[1,\"a\",\"b\"]"},
       {"[1,2,\"a\"]"}},
      {R"({"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": true})",
       {"[]", "[1,\"a\"]", "[\"b\",\"a\",1]"},
       {"[1,1]", "[\"a\",\"b\",\"a\"]", "[1,1.0]"}},
      {R"({"type": "array", "items": {"enum": ["a","b","c","d","e","f","g","h"]}, "uniqueItems": true, "minItems": 2})",
       {"[\"a\",\"h\"]", "[\"a\",\"c\",\"d\"]"},
       {"[\"a\"]", "[\"a\",\"a\"]"}},
  });
}

TEST_F(schema_values, long_arrays_end_exactly_at_their_limits) {
  const auto array = [](int count) {
    std::string text = "[1";
    for (int i = 1; i < count; ++i) text += i % 2 == 0 ? ",1" : ",\"a\"";
    return text + "]";
  };
  for (const int count : {128, 129, 130, 255, 256, 257, 1'000, 10'000}) {
    const auto limit = std::to_string(count);
    const std::string items = R"({"type": "array", "items": {"type": ["integer", "string"]}, )";
    const std::string most = items + R"("maxItems": )" + limit + "}";
    const std::string both =
        items + R"("minItems": )" + std::to_string(count / 2) + R"(, "maxItems": )" + limit + "}";
    const std::string first =
        R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": ["integer", "string"]}, "maxItems": )" +
        limit + "}";
    check({{most.c_str(), {"[]", array(1), array(count - 1), array(count)}, {array(count + 1)}},
           {both.c_str(),
            {array(count / 2), array(count / 2 + 1), array(count - 1), array(count)},
            {array(count / 2 - 1), array(count + 1)}},
           {first.c_str(), {"[]", array(1), array(count)}, {array(count + 1), "[\"a\"]"}}});
  }
}

TEST_F(schema_values, arrays_of_one_length_have_exactly_that) {
  const auto array = [](int count) {
    std::string text = "[1";
    for (int i = 1; i < count; ++i) text += ",1";
    return text + "]";
  };
  for (const int count : {128, 129, 200, 1'000}) {
    const auto limit = std::to_string(count);
    const std::string exact = R"({"type": "array", "items": {"type": "integer"}, "minItems": )" + limit +
                              R"(, "maxItems": )" + limit + "}";
    check({{exact.c_str(), {array(count)}, {"[]", array(count - 1), array(count + 1)}}});
  }
}

TEST_F(schema_values, patterns_repeat_exactly_as_often_as_they_say) {
  struct counts {
    const char* pattern;
    std::vector<std::size_t> allowed;
    std::vector<std::size_t> refused;
  };
  for (const auto& one :
       {counts{"a{0,200}", {0, 1, 128, 129, 199, 200}, {201, 256}},
        counts{"a{130,200}", {130, 199, 200}, {0, 129, 201}}, counts{"a{200}", {200}, {0, 199, 201}},
        counts{"a{130,}", {130, 131, 400}, {0, 129}}, counts{"(a?){0,200}", {0, 1, 128, 129, 200}, {201}},
        counts{"(a?){150,200}", {0, 1, 149, 200}, {201}}}) {
    const auto made = library->compile({grammar_source::kind::regex, one.pattern});
    ASSERT_TRUE(made) << one.pattern << ": " << made.error().message();
    for (const auto count : one.allowed)
      EXPECT_TRUE(allows(**made, std::string(count, 'a'))) << one.pattern << " " << count;
    for (const auto count : one.refused)
      EXPECT_FALSE(allows(**made, std::string(count, 'a'))) << one.pattern << " " << count;
  }
}

/// A long array is not one of the texts that take too much work.
TEST_F(schema_values, a_long_array_takes_little_work) {
  const auto made =
      library->compile({grammar_source::kind::json_schema,
                        R"({"type": "array", "items": {"type": "integer"}, "maxItems": 10000})"});
  ASSERT_TRUE(made);
  const auto cursor = (*made)->begin();
  const auto tokens = *vocabulary.encode("[1,22,333", {.add_special = false, .parse_special = false});
  const auto more = *vocabulary.encode(",1", {.add_special = false, .parse_special = false});
  std::vector<token_id> output(tokens);
  for (int i = 3; i < 10'000; ++i) {
    ASSERT_EQ(cursor->num_allowed(output, {}, more), more.size()) << i;
    output.insert(output.end(), more.begin(), more.end());
  }
  EXPECT_EQ(cursor->num_allowed(output, {}, more), 0U);
  EXPECT_FALSE(cursor->is_exhausted());
}

TEST_F(schema_values, multiples_obey_all_units_and_signs) {
  check({
      {R"({"type": "number", "multipleOf": 1.5})",
       {"0", "4.5", "-3", "7.50", "15"},
       {"1", "35", "0.5", "4.55"}},
      {R"({"type": "number", "multipleOf": 0.1, "exclusiveMinimum": -0.2, "maximum": 0.25})",
       {"-0.1", "0", "0.1", "0.2"},
       {"-0.2", "0.25", "0.3", "-0"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 999999999999980, "maximum": 1000000000000000})",
       {"999999999999980", "999999999999987", "999999999999994"},
       {"1000000000000000", "999999999999981"}},
      {R"({"type": "number", "multipleOf": 0.01, "minimum": 0})", {"0", "1.25", "19.9"}, {"-1", "1.255"}},
      {R"({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"})",
       {"12", "-24", "0"},
       {"6", "4", "18"}},
      {R"({"type": "integer", "multipleOf": 3, "exclusiveMaximum": 0})",
       {"-3", "-12"},
       {"0", "-0", "3", "-4"}},
      {R"({"type": "number", "not": {"const": 2}})", {"1", "2.5", "3", "-2"}, {"2", "2.0", "2.00"}},
      {R"({"type": "integer", "not": {"enum": [0, 1, 5]}})", {"2", "-1", "6"}, {"0", "1", "5"}},
      {R"({"type": "number", "not": {"type": "integer"}, "exclusiveMaximum": 3})",
       {"2.5", "-7.25"},
       {"3.5", "2", "2.99999999999999999"}},
  });
}

/// The bounds that libraries write for every integer.
TEST_F(schema_values, long_bounds_of_integers_are_exact) {
  check({
      {R"({"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991})",
       {"0", "-17", "9007199254740991", "-9007199254740991"},
       {"9007199254740992", "-9007199254740992", "90071992547409910", "1.5"}},
      {R"({"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991})",
       {"1", "9007199254740991"},
       {"0", "9007199254740992"}},
      {R"({"type": "integer", "minimum": -9223372036854775808, "exclusiveMaximum": 9223372036854775807})",
       {"-9223372036854775808", "9223372036854775806"},
       {"-9223372036854775809", "9223372036854775807"}},
      {R"({"type": "integer", "minimum": 0, "maximum": 18446744073709551615})",
       {"18446744073709551615"},
       {"18446744073709551616", "-1"}},
      {R"({"type": "number", "minimum": 0.5, "maximum": 9007199254740991})",
       {"0.5", "2", "12.25", "9007199254740991"},
       {"0.25", "9007199254740992", "9007199254740990.9"}},
      // A bound beyond 64 bits leaves all integers of 64 bits.
      {R"({"type": "integer", "minimum": -1e300, "maximum": 1e300})",
       {"0", "-9223372036854775808", "18446744073709551615"},
       {"18446744073709551616"}},
      {R"({"type": "integer", "allOf": [{"minimum": 9007199254740992}, {"minimum": 9007199254740993}]})",
       {"9007199254740993"},
       {"9007199254740992"}},
  });
}

TEST_F(schema_values, texts_obey_patterns_formats_and_lengths_together) {
  const std::string a499(499, 'a');
  check({
      {R"({"type": "string", "maxLength": 500})",
       {"\"\"", "\"" + a499 + "\"", "\"" + a499 + "b\"", "\"" + a499 + "\\n\"", "\"" + a499 + "\xC3\xBC\""},
       {"\"" + a499 + "bc\"", "\"" + a499 + "\\nb\"", "\"" + a499 + "b\\n\"", "\"" + a499 + "\\\\\\\\\""}},
      {R"({"type": "string", "minLength": 3, "maxLength": 500})",
       {"\"abc\"", "\"" + a499 + "b\""},
       {"\"ab\"", "\"" + a499 + "bc\""}},
      {R"({"type": "string", "pattern": "^[a-z]+$", "maxLength": 5})",
       {"\"a\"", "\"abcde\""},
       {"\"\"", "\"abcdef\"", "\"A\""}},
      {R"({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 500})",
       {"\"ab\"", "\"" + a499 + "b\""},
       {"\"a\"", "\"" + a499 + "bc\"", "\"A\""}},
      {R"({"type": "string", "pattern": "^[0-9]{3}-[0-9]{4}$", "maxLength": 2000})",
       {"\"123-4567\""},
       {"\"123-456\""}},
      {R"({"type": "string", "allOf": [{"pattern": "a"}, {"pattern": "^[a-c]*$"}]})",
       {"\"bac\""},
       {"\"bc\"", "\"ad\""}},
      {R"({"type": "string", "not": {"pattern": "^a|b$"}})", {"\"\"", "\"ba\""}, {"\"a\"", "\"cb\""}},
      {R"({"oneOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"})",
       {"\"a\"", "\"cb\""},
       {"\"ab\"", "\"\""}},
      {R"({"type": "string", "not": {"enum": ["a", "bc"]}, "maxLength": 2})",
       {"\"b\"", "\"ab\""},
       {"\"a\"", "\"bc\"", "\"abc\""}},
      {R"({"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})",
       {"\"-1.50\"", "\".5\""},
       {"\"\"", "\"-\"", "\"-.\"", "\"1.2.3\""}},
      {R"({"type": "string", "not": {"pattern": "^(?!a)[ab]*$"}})",
       {"\"ab\"", "\"c\"", "\"bc\""},
       {"\"\"", "\"b\"", "\"ba\""}},
      {R"x({"type": "object", "patternProperties": {"^(?!x_)": {"type": "integer"}}, "additionalProperties": false})x",
       {"{}", R"({"a": 1})"},
       {R"({"x_a": 1})", R"({"a": "b"})"}},
      {R"({"type": "string", "format": "email"})",
       {"\"a.b+c@d-e.org\""},
       {"\"a\"", "\"a.@b\"", "\"a@b.\"", "\"@b\""}},
      {R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})",
       {"\"https://a.org/b?c=d#e\""},
       {"\"a\"", "\"http://\"", "\"http://a b\""}},
      {R"({"type": "string", "format": "email", "maxLength": 7})",
       {"\"a@b.org\""},
       {"\"ab@b.org\"", "\"a\""}},
      {R"({"type": "string", "format": "ipv6"})",
       {"\"::1\"", "\"1:2:3:4:5:6:7:8\""},
       {"\"1:2\"", "\"1::2::3\""}},
      {R"({"type": "string", "format": "duration"})",
       {"\"P1Y2M\"", "\"PT5M\"", "\"P3W\""},
       {"\"P\"", "\"PT\"", "\"P1Y2D\""}},
      {R"({"type": "string", "format": "date"})", {"\"2024-02-28\""}, {"\"2024-02-30\"", "\"2024-04-31\""}},
      {R"({"type": "integer", "format": "int64"})", {"5", "-7"}, {"\"5\"", "1.5"}},
      {R"({"type": "string", "allOf": [{"format": "byte"}, {"format": "date"}]})",
       {"\"2024-02-28\""},
       {"\"a\""}},
  });
}

TEST_F(schema_values, the_shortest_text_of_a_format_obeys_a_least_length_exactly) {
  const std::pair<const char*, const char*> shortest[] = {
      {"date", "2024-02-28"}, {"time", "00:00:00Z"}, {"date-time", "2024-02-28T00:00:00Z"},
      {"duration", "P1D"},    {"email", "a@b"},      {"hostname", "a"},
      {"ipv4", "1.2.3.4"},    {"ipv6", "::"},        {"uuid", "01234567-89ab-cdef-0123-456789abcdef"},
      {"uri", "ftp://a"},     {"iri", "ftp://a"},    {"json-pointer", ""}};
  for (const auto& [format, text] : shortest) {
    const std::string size = std::to_string(std::string(text).size());
    const std::string more = std::to_string(std::string(text).size() + 1);
    const std::string begin =
        R"({"type": "string", "format": ")" + std::string(format) + R"(", "minLength": )";
    const std::string quoted = "\"" + std::string(text) + "\"";
    check({{(begin + size + "}").c_str(), {quoted}, {}}});
    if (const auto made = library->compile({grammar_source::kind::json_schema, begin + more + "}"})) {
      EXPECT_FALSE(allows(**made, quoted)) << format;
    }
  }
}

TEST_F(schema_values, names_of_members_obey_all_patterns) {
  check({
      {R"({"type": "object", "properties": {"foo": {"type": "integer"}}, "patternProperties": {"^f": {"minimum": 3},
        "o$": {"maximum": 5}}, "additionalProperties": false})",
       {R"({"foo": 4})", R"({"fa": 9})", R"({"fo": 4})", R"({"o": 1, "f": 7})"},
       {R"({"foo": 9})", R"({"fo": 9})", R"({"fo": 1})", R"({"x": 1})", R"({"fa": 1})"}},
      {R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}, "additionalProperties": {"type": "integer"}})",
       {R"({"abc": 1})", "{}"},
       {R"({"abcd": 1})", R"({"A": 1})", R"({"a": "b"})"}},
      {R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}})",
       {R"({"b": 1, "a": 2})"},
       {R"({"c": 1})"}},
      {R"({"type": "object", "propertyNames": {"const": "a"}})", {"{}", R"({"a": 1})"}, {R"({"b": 1})"}},
      {R"({"type": "object", "propertyNames": {"const": "a", "enum": ["a", "b"]}})",
       {"{}", R"({"a": 1})"},
       {R"({"b": 1})"}},
      {R"({"type": "object", "propertyNames": {"const": "c", "enum": ["a", "b"]}})", {"{}"}, {R"({"c": 1})"}},
      {R"({"type": "object", "propertyNames": {"enum": ["a", 1, null, "b"], "maxLength": 5}})",
       {"{}", R"({"b": 1})"},
       {R"({"1": 1})", R"({"null": 1})"}},
      {R"({"type": "object", "propertyNames": {"const": 1}})", {"{}"}, {R"({"1": 1})"}},
      {R"({"type": "object", "properties": {"a": {}, "c": {}}, "propertyNames": {"enum": ["a", "b"]}})",
       {R"({"a": 1})", R"({"a": 1, "b": 2})"},
       {R"({"c": 1})"}},
  });
}

TEST_F(schema_values, a_largest_number_of_members_counts_where_it_can_be_reached) {
  std::string properties;
  for (int i = 0; i < 60; ++i) properties += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(": {})";
  const std::string object = R"({"type": "object", "additionalProperties": false, "properties": {)";
  const std::string many = object + properties + R"(}, "maxProperties": 60})";
  check({
      {many.c_str(), {"{}", R"({"p0": 1, "p59": 2})"}, {R"({"q": 1})"}},
      {R"({"type": "object", "additionalProperties": false, "properties": {"a": {}, "b": {}}, "maxProperties": 1})",
       {"{}", R"({"a": 1})", R"({"b": 1})"},
       {R"({"a": 1, "b": 1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 2})",
       {R"({"a": 1, "b": 1})", R"({"b": 1, "c": 1})"},
       {R"({"a": 1, "b": 1, "c": 1})"}},
      {R"({"type": "object", "additionalProperties": false, "properties": {"a": {}, "b": {}}, "minProperties": 1,
        "maxProperties": 5})",
       {R"({"a": 1})", R"({"a": 1, "b": 1})"},
       {"{}"}},
  });
}

TEST_F(schema_values, one_of_allows_what_exactly_one_allows) {
  check({
      {R"({"oneOf": [{"type": "integer"}, {"const": 1}]})", {"2", "0"}, {"1", "\"a\""}},
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "2.5"}, {"3", "1.5"}},
      {R"({"not": {"items": {"type": "string"}}, "type": "array"})", {"[1]", "[\"a\",2]"}, {"[]", "[\"a\"]"}},
      {R"({"type": "object", "properties": {"k": {}, "n": {}}, "if": {"properties": {"k": {"type": "string", "const": "x"}}},
        "then": {"required": ["n"]}, "additionalProperties": false})",
       {R"({"k": "x", "n": 1})", R"({"k": "y"})"},
       {R"({"k": "x"})", "{}"}},
  });
}

} // namespace
} // namespace paceline::grammar
