// Values of schemas with "anyOf" and "oneOf".
#include "schema_values.hpp"

#include <string>

namespace paceline::grammar {
namespace {

using test_values::schema_values;

/// `count` schemas that each list one text: "t0", "t1", and so on.
std::string listed_texts(int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += (i > 0 ? R"(,{"const": "t)" : R"({"const": "t)") + std::to_string(i) + R"(", "title": "T"})";
  return out;
}

TEST_F(schema_values, alternatives_that_only_list_values_may_be_many) {
  const std::string any = R"({"anyOf": [)" + listed_texts(100) + "]}";
  const std::string beside =
      R"({"anyOf": [)" + listed_texts(70) + R"(, {"type": "null"}, {"enum": [1, 2]}]})";
  const std::string one = R"({"type": "string", "oneOf": [)" + listed_texts(60) + "]}";
  const std::string twice = R"({"oneOf": [{"const": "t3"},)" + listed_texts(60) + "]}";
  check({
      {any.c_str(), {"\"t0\"", "\"t99\""}, {"\"t100\"", "null"}},
      {beside.c_str(), {"\"t69\"", "null", "1"}, {"3", "\"t70\""}},
      {one.c_str(), {"\"t0\"", "\"t59\""}, {"\"t60\"", "1"}},
      {twice.c_str(), {"\"t0\"", "\"t59\""}, {"\"t3\""}},
  });
}

TEST_F(schema_values, listed_values_are_compared_as_json_does) {
  check({
      {R"({"oneOf": [{"const": 1}, {"const": 1.0}, {"enum": [2, 2.0]}, {"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}]})",
       {"2"},
       {"1", "1.0", R"({"a": 1,"b": 2})", R"({"b": 2,"a": 1})"}},
      {R"({"anyOf": [{"const": 1}, {"enum": [1.0, "1"]}]})", {"1", "\"1\""}, {"2"}},
      {R"({"anyOf": [{"type": "string", "enum": ["x", 5]}, {"const": "y", "enum": ["y", "z"]}, {"const": "u", "enum": ["w"]}]})",
       {"\"x\"", "\"y\""},
       {"5", "\"z\"", "\"u\"", "\"w\""}},
      {R"({"anyOf": [{"type": "integer", "const": 1}, {"type": "integer", "const": 2}, {"const": 3}]})",
       {"1", "2", "3", "3.0"},
       {"1.0", "2.0"}},
  });
}

/// A value that two alternatives list is not allowed, even if a third one allows it.
TEST_F(schema_values, a_value_listed_twice_is_excluded_from_the_other_alternatives) {
  check({
      {R"({"oneOf": [{"const": "a"}, {"const": "a"}, {"type": "string"}]})", {"\"b\"", "\"\""}, {"\"a\""}},
      {R"({"oneOf": [{"const": 1}, {"const": 2}, {"type": "integer"}]})", {"3"}, {"1", "2"}},
      {R"({"oneOf": [{"type": "integer", "const": 1}, {"const": 1}, {"type": "integer"}]})",
       {"2"},
       {"1", "1.0"}},
      {R"({"enum": ["a", "b", "c"], "oneOf": [{"const": "a"}, {"const": "a"}, {"const": "b"}]})",
       {"\"b\""},
       {"\"a\"", "\"c\""}},
  });
}

TEST_F(schema_values, more_than_64_alternatives_are_allowed_where_nothing_is_beside_them) {
  std::string functions;
  for (int i = 0; i < 128; ++i)
    functions += std::string(i > 0 ? "," : "") + R"({"type": "object", "properties": {"name": {"const": "f)" +
                 std::to_string(i) + R"("}, "arguments": {"type": "object", "properties": {"x": {"const": )" +
                 std::to_string(i) +
                 R"(}}}}, "required": ["name", "arguments"], "additionalProperties": false})";
  const std::string calls = R"({"description": "calls", "anyOf": [)" + functions + "]}";
  check({{calls.c_str(),
          {R"({"name": "f0", "arguments": {"x": 0}})", R"({"name": "f127", "arguments": {"x": 127}})"},
          {R"({"name": "f128", "arguments": {}})", R"({"name": "f5", "arguments": {"x": 6}})"}}});
}

/// As Pydantic writes a union that a member tells apart, with a default for this member.
std::string union_of_models(const std::string& more) {
  const auto model = [&](const std::string& kinds, const std::string& name) {
    return R"({"type": "object", "properties": {"kind": {)" + kinds +
           R"(, "type": "string", "default": "x"}, ")" + name + R"(": {"type": "integer"}})" + more + "}";
  };
  return R"({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}, {"$ref": "#/$defs/cow"}],
    "discriminator": {"propertyName": "kind"}, "$defs": {"cat": )" +
         model(R"("const": "cat")", "lives") + R"(, "dog": )" + model(R"("enum": ["dog", "wolf"])", "age") +
         R"(, "cow": )" + model(R"("const": "cow")", "milk") + "}}";
}

TEST_F(schema_values, a_member_that_tells_alternatives_apart_is_required) {
  for (const char* more : {"", R"(, "additionalProperties": false)"}) {
    const std::string schema = union_of_models(more);
    check({{schema.c_str(),
            {R"({"kind": "cat"})", R"({"kind": "cat", "lives": 9})", R"({"kind": "wolf", "age": 2})",
             R"({"kind": "cow", "milk": 1})"},
            {"{}", R"({"kind": "bat"})", R"({"kind": "cat", "lives": "x"})",
             // The schema allows this one, the grammar does not.
             R"({"lives": 9})"}}});
  }
  const std::string closed = union_of_models(R"(, "additionalProperties": false)");
  check({{closed.c_str(), {}, {R"({"kind": "cat", "age": 2})"}}});
}

} // namespace
} // namespace paceline::grammar
