#include "protocol/wire/field_reader.hpp"

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
  reading r(R"({"a":1,"b":2,"c":3})");
  int value = 0;
  r.reader.integer("a", value, 0, 9);
  r.reader.accept({"b"});
  EXPECT_EQ(r.reader.ignored(), std::vector<std::string>{"body.c"});
}

TEST(field_reader, refuses_a_known_field_that_is_not_offered_unless_null) {
  reading r(R"({"a":null,"b":0})");
  r.reader.refuse("a", "no");
  EXPECT_FALSE(r.reader.failure());
  r.reader.refuse("b", "no");
  EXPECT_EQ(r.reader.failure()->code, "unsupported_parameter");
}

} // namespace
} // namespace paceline::wire
