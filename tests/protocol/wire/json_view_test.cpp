#include "protocol/wire/json_view.hpp"

#include "protocol/wire/client_requests.hpp"
#include "protocol/wire/field_reader.hpp"
#include "tests/support/largest_allocation.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

json_view checked(std::string_view text) { return *parse_object(text); }

TEST(json_view, reads_members_and_elements_in_order) {
  const auto view = checked(R"( { "a" : [ 1 , "x,]" , { "b" : [ ] } , null ] , "c":-2.5e1,"d":{} } )");
  std::vector<std::string> names;
  std::vector<std::string_view> values;
  for (const auto member : view.members()) {
    names.push_back(member.name());
    values.push_back(member.value.source());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a", "c", "d"}));
  EXPECT_EQ(values[1], "-2.5e1");
  EXPECT_EQ(values[2], "{}");
  std::vector<std::string_view> elements;
  for (const auto element : json_view(values[0]).elements()) elements.push_back(element.source());
  EXPECT_EQ(elements, (std::vector<std::string_view>{"1", R"("x,]")", R"({ "b" : [ ] })", "null"}));
  EXPECT_TRUE(json_view("[ ]").elements().empty());
  EXPECT_TRUE(json_view("{ }").members().empty());
}

TEST(json_view, unescapes_strings_and_names) {
  const auto view = checked(R"({"\u0061\n":"\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00z"})");
  const auto member = *view.members().begin();
  EXPECT_TRUE(member.is_named("a\n"));
  EXPECT_EQ(member.value.string(), "\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
  EXPECT_TRUE(json_view(R"("\u0061uto")").is_string("auto"));
}

TEST(json_view, converts_no_number_with_loss) {
  EXPECT_EQ(json_view("9223372036854775807").int64(), INT64_MAX);
  EXPECT_FALSE(json_view("9223372036854775808").int64());
  EXPECT_EQ(json_view("18446744073709551615").uint64(), UINT64_MAX);
  EXPECT_FALSE(json_view("1.0").int64());
  EXPECT_FALSE(json_view("1e2").int64());
  EXPECT_FALSE(json_view("-1").uint64());
  EXPECT_EQ(json_view("-2.5e1").number(), -25.0);
  EXPECT_FALSE(json_view("\"1\"").number());
}

TEST(json_view, a_compact_text_keeps_blanks_inside_strings) {
  EXPECT_EQ(compact(json_view("{ \"a b\" : [ 1 ,\n\"c \\\" d\" ] }")), R"({"a b":[1,"c \" d"]})");
}

TEST(read_token_ids, takes_integers_of_31_bits_only) {
  EXPECT_EQ(read_token_ids(json_view("[ 0, 2147483647 ]").elements()),
            (std::vector<token_id>{token_id{0}, token_id{2147483647}}));
  for (const auto* text : {"[1,-1]", "[2147483648]", "[1.0]", "[\"1\"]", "[null]"})
    EXPECT_FALSE(read_token_ids(json_view(text).elements())) << text;
}

TEST(parse_object, the_last_of_a_repeated_name_counts) {
  field_reader reader(checked(R"({"n":1,"n":2,"x":0,"x":1})"), "");
  int n = 0;
  EXPECT_TRUE(reader.integer("n", n, 0, 9));
  EXPECT_EQ(n, 2);
  EXPECT_EQ(reader.ignored(), std::vector<std::string>{"x"});
}

TEST(field_reader, reports_no_more_names_than_a_client_reads) {
  std::string text = "{";
  for (int i = 0; i < 1000; ++i) text += "\"f" + std::to_string(i) + "\":0,";
  text.back() = '}';
  EXPECT_EQ(field_reader(checked(text), "").ignored().size(), field_reader::max_ignored);
}

/// `count` times `element`, separated by commas.
std::string repeated(std::string_view element, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text.append(i == 0 ? "" : ",").append(element);
  return text;
}

TEST(parse_completion_request, a_million_values_cost_no_tree) {
  constexpr std::size_t count = 1'000'000;
  const auto zeros = repeated("0", count);
  for (const auto& body :
       {"{\"prompt\":[" + zeros + "]}",
        R"({"prompt":"a","prediction":{"type":"content","content":[)" + zeros + "]}}",
        R"({"prompt":"a","unknown":[)" + zeros + "]}", R"({"prompt":"a","unknown":{"b":[)" + zeros + "]}}"}) {
    test::reset_largest_allocation();
    const auto request = parse_completion_request(body, {});
    EXPECT_TRUE(request);
    EXPECT_LE(test::largest_allocation(), 4 * count + 64) << body.substr(0, 60);
  }
}

TEST(json_view, names_are_compared_where_they_stand) {
  std::string raw = "stream";
  for (int i = 0; i < 100'000; ++i) raw += "\\u0061";
  const json_member member{raw};
  test::reset_largest_allocation();
  EXPECT_FALSE(member.is_named("stream_options"));
  EXPECT_FALSE(member.is_named("stream"));
  EXPECT_EQ(test::num_allocations(), 0U);
  EXPECT_TRUE((json_member{R"(\u0061b\u00e9\ud83d\ude00\n)"}.is_named("ab\u00e9\U0001f600\n")));
  EXPECT_FALSE((json_member{R"(\u0061b)"}.is_named("ab\u00e9")));
  EXPECT_FALSE((json_member{R"(\u00e9)"}.is_named("\xc3")));
}

} // namespace
} // namespace paceline::wire
