#include "protocol/wire/constraint_fields.hpp"

#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/field_reader.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

using kind = grammar::grammar_source::kind;

parsed<chat_request> chat(const std::string& members) {
  return parse_chat_request(R"({"messages":[{"role":"user","content":"x"}],)" + members + "}", {});
}

struct constraint_case {
  const char* members;
  kind what;
  const char* text;
  const char* field;
};

TEST(constraint_fields, read_every_spelling) {
  const constraint_case cases[] = {
      {R"("response_format":{"type":"json_object"})", kind::json_object, "", "response_format.type"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{ "type" : "object" }}})",
       kind::json_schema, R"({"type":"object"})", "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object","schema":{"type":"array"}})", kind::json_schema,
       R"({"type":"array"})", "response_format.schema"},
      {R"("structured_outputs":{"json":{"type":"object"}})", kind::json_schema, R"({"type":"object"})",
       "structured_outputs.json"},
      {R"("structured_outputs":{"json":"{\"type\":\"object\"}"})", kind::json_schema, R"({"type":"object"})",
       "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a+"})", kind::regex, "a+", "structured_outputs.regex"},
      {R"("structured_outputs":{"choice":["a", "b"]})", kind::choice, R"(["a","b"])",
       "structured_outputs.choice"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", kind::ebnf, "root ::= \"a\"",
       "structured_outputs.grammar"},
      {R"("structured_outputs":{"json_object":true})", kind::json_object, "",
       "structured_outputs.json_object"},
      {R"("guided_json":{})", kind::json_schema, "{}", "guided_json"},
      {R"("guided_regex":"[0-9]")", kind::regex, "[0-9]", "guided_regex"},
      {R"("guided_choice":["x"])", kind::choice, R"(["x"])", "guided_choice"},
      {R"("guided_grammar":"g")", kind::ebnf, "g", "guided_grammar"},
      {R"("grammar":"root ::= x")", kind::ebnf, "root ::= x", "grammar"},
      {R"("json_schema":{"type":"null"})", kind::json_schema, R"({"type":"null"})", "json_schema"}};
  for (const auto& one : cases) {
    const auto request = chat(one.members);
    ASSERT_TRUE(request) << one.members << request.failure().message;
    ASSERT_TRUE(request->fields.constraint) << one.members;
    EXPECT_EQ(request->fields.constraint->source.what, one.what) << one.members;
    EXPECT_EQ(request->fields.constraint->source.text, one.text);
    EXPECT_EQ(request->fields.constraint->field, one.field);
    EXPECT_TRUE(request->fields.ignored_fields.empty()) << one.members;
  }
}

TEST(constraint_fields, without_effect_constrain_nothing) {
  for (const auto* members :
       {R"("response_format":{"type":"text"})", R"("grammar":"")", R"("json_schema":null)",
        R"("structured_outputs":{})", R"("structured_outputs":{"json_object":false})"}) {
    const auto request = chat(members);
    ASSERT_TRUE(request) << members << request.failure().message;
    EXPECT_FALSE(request->fields.constraint) << members;
  }
}

TEST(constraint_fields, name_what_is_wrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":"json")", "response_format"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":7}})",
       "response_format.json_schema.schema"},
      {R"("guided_json":"no schema")", "guided_json"},
      {R"("guided_regex":7)", "guided_regex"},
      {R"("guided_choice":[])", "guided_choice"},
      {R"("guided_choice":["a",7])", "guided_choice[1]"},
      {R"("guided_choice":[""])", "guided_choice[0]"},
      {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"},
      {R"("guided_regex":"a","grammar":"root ::= x")", "grammar"},
      {R"("response_format":{"type":"json_object"},"guided_json":{})", "guided_json"}};
  for (const auto& [members, param] : cases) {
    const auto request = chat(members);
    ASSERT_FALSE(request) << members;
    EXPECT_EQ(request.failure().param, param) << request.failure().message;
    EXPECT_EQ(request.failure().status, 400);
  }
}

TEST(constraint_fields, of_responses_stand_in_text) {
  const auto response = [](const std::string& members) {
    return parse_response_request(R"({"input":"x",)" + members + "}", {});
  };
  const auto schema = response(
      R"("text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}})");
  ASSERT_TRUE(schema) << schema.failure().message;
  EXPECT_EQ(schema->fields.constraint->source.text, R"({"type":"object"})");
  EXPECT_EQ(schema->fields.constraint->field, "text.format.schema");
  EXPECT_EQ(response(R"("text":{"format":{"type":"json_object"}})")->fields.constraint->source.what,
            kind::json_object);
  EXPECT_FALSE(response(R"("text":{"format":{"type":"text"}})")->fields.constraint);
}

} // namespace
} // namespace paceline::wire
