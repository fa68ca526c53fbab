#include "protocol/wire/field_reader.hpp"

#include "protocol/wire/fields/field_table.hpp"
#include "tests/support/largest_allocation.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

TEST(parse_object, refuses_text_beyond_its_limits_before_building_values) {
  EXPECT_EQ(parse_object(R"({"a":1})", {4, 32}).failure().code, "invalid_json");
  const auto deep = "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}";
  const auto failure = parse_object(deep).failure();
  EXPECT_EQ(failure.status, 400);
  EXPECT_NE(failure.message.find("32 levels"), std::string::npos) << failure.message;
  EXPECT_TRUE(parse_object("{\"a\":" + std::string(20, '[') + std::string(20, ']') + "}"));
}

TEST(parse_object, survives_a_million_brackets) {
  EXPECT_FALSE(parse_object(std::string(1'000'000, '[')));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"a\":";
  EXPECT_FALSE(parse_object(nested));
}

TEST(parse_object, refuses_what_is_not_one_object) {
  for (const auto* text : {"", "[]", "1", "null", "{", "{}x", "{\"a\":NaN}", "{\"a\":Infinity}", "{'a':1}",
                           "{\"a\":\"\xff\"}", "{\"a\":\"\\ud800\"}", "{\"a\":01}", "\xef\xbb\xbf{}"})
    EXPECT_EQ(parse_object(text).failure().code, "invalid_json") << text;
}

struct reading {
  json_view fields;
  field_reader reader{fields, "body"};
  explicit reading(std::string_view text) : fields(*parse_object(text)) {}
};

TEST(field_reader, names_the_field_with_its_path) {
  reading r(R"({"n":1.5})");
  int n = 7;
  EXPECT_FALSE(r.reader.integer("n", n, 1, 10));
  EXPECT_EQ(n, 7);
  ASSERT_TRUE(r.reader.failure());
  EXPECT_EQ(r.reader.failure()->param, "body.n");
  EXPECT_NE(r.reader.failure()->message.find("an integer from 1 to 10"), std::string::npos);
}

TEST(field_reader, keeps_the_first_failure) {
  reading r(R"({"a":"x","b":"y"})");
  bool flag = false;
  r.reader.boolean("a", flag);
  r.reader.boolean("b", flag);
  EXPECT_EQ(r.reader.failure()->param, "body.a");
}

TEST(field_reader, takes_null_for_absent) {
  reading r(R"({"a":null})");
  bool flag = true;
  EXPECT_FALSE(r.reader.boolean("a", flag));
  EXPECT_FALSE(r.reader.failure());
  EXPECT_TRUE(r.reader.ignored().empty());
}

TEST(field_reader, reports_fields_nobody_asked_for) {
  reading r(R"({"a":1,"model":2,"c":3})");
  int value = 0;
  r.reader.integer("a", value, 0, 9);
  r.reader.accept(spec("model"));
  EXPECT_EQ(r.reader.ignored(), std::vector<std::string>{"body.c"});
}

TEST(field_reader, refuses_a_known_field_that_is_not_offered_unless_null) {
  reading r(R"({"a":null,"b":0})");
  r.reader.refuse("a", "no");
  EXPECT_FALSE(r.reader.failure());
  r.reader.refuse("b", "no");
  EXPECT_EQ(r.reader.failure()->code, "unsupported_parameter");
}

// Names of the table ("n", "stop") are read at once, others ("a") are looked for in the text.
TEST(field_reader, takes_the_last_of_a_repeated_name_and_any_spelling_of_it) {
  reading r(R"({"n":1,"a":1,"n":2,"\u006e":3,"\u0061":4})");
  int known = 0;
  int other = 0;
  EXPECT_TRUE(r.reader.integer("n", known, 0, 9));
  EXPECT_TRUE(r.reader.integer("a", other, 0, 9));
  EXPECT_EQ(known, 3);
  EXPECT_EQ(other, 4);
  EXPECT_TRUE(r.reader.ignored().empty());
}

TEST(field_reader, reports_known_names_that_were_not_read_once_each) {
  reading r(R"({"stop":1,"x":1,"stop":2,"\u0078":3,"n":1})");
  int value = 0;
  r.reader.integer("n", value, 0, 9);
  EXPECT_EQ(r.reader.ignored(), (std::vector<std::string>{"body.stop", "body.x"}));
}

TEST(field_reader, keeps_nothing_of_a_million_other_members) {
  std::string body = "{\"n\":7";
  for (int i = 0; i < 500'000; ++i) body += i % 2 == 0 ? ",\"x\":1" : ",\"stop\":1";
  const reading parsed_once(body += "}");
  test::reset_largest_allocation();
  field_reader reader(parsed_once.fields, "");
  int value = 0;
  EXPECT_TRUE(reader.integer("n", value, 0, 9));
  EXPECT_EQ(reader.ignored(), (std::vector<std::string>{"x", "stop"}));
  EXPECT_LT(test::largest_allocation(), 4096U);
}

TEST(field_reader, checks_what_was_not_read_by_the_table) {
  const auto failure = [](std::string_view text) {
    reading r(text);
    std::string role;
    r.reader.text(spec("messages[].role", in::chat), role);
    r.reader.check_unread("messages[]", in::chat);
    return r.reader.failure() ? r.reader.failure()->param : "";
  };
  EXPECT_EQ(failure(R"({"role":1,"name":1})"), "body.role");
  EXPECT_EQ(failure(R"({"role":"user","name":1})"), "body.name");
  EXPECT_EQ(failure(R"({"role":"user","audio":{}})"), "body.audio");
  EXPECT_EQ(failure(R"({"role":"user","content":7})"), "body.content");
  EXPECT_EQ(failure(R"({"role":"user","name":"x","content":[],"top_p":"of another object","x":1})"), "");
}

TEST(field_reader, refuses_a_field_of_the_table_unless_its_value_is_neutral) {
  reading r(R"({"mirostat":0,"typical_p":0.5})");
  r.reader.refuse(spec("mirostat"));
  EXPECT_FALSE(r.reader.failure());
  r.reader.refuse(spec("typical_p"));
  ASSERT_TRUE(r.reader.failure());
  EXPECT_EQ(r.reader.failure()->message,
            "body.typical_p: this sampling option is not offered; only 1 is accepted");
}

} // namespace
} // namespace paceline::wire
