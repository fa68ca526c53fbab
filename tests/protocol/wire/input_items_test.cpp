#include "protocol/wire/input_items.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace paceline::wire::input_items_test {
namespace {

namespace json = boost::json;

const std::vector<chat_message> turns{{"system", "be brief", "", {}, ""},
                                      {"user", "a\n", "", {}, ""},
                                      {"assistant", "b", "", {{"c1", "f", R"({"x":1})"}}, ""},
                                      {"tool", "42", "", {}, "c1"}};

json::value list(const item_page& page) {
  return json::parse(input_item_list("resp_7", turns, page).value().text());
}

TEST(input_items, a_turn_with_calls_is_several_items) {
  item_page page;
  page.newest_first = false;
  EXPECT_EQ(list(page), json::parse(R"({"object":"list","data":[
    {"id":"in_7_0","status":"completed","type":"message","role":"system","content":[{"type":"input_text","text":"be brief"}]},
    {"id":"in_7_1","status":"completed","type":"message","role":"user","content":[{"type":"input_text","text":"a\n"}]},
    {"id":"in_7_2","status":"completed","type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]},
    {"id":"in_7_3","status":"completed","type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},
    {"id":"in_7_4","status":"completed","type":"function_call_output","call_id":"c1","output":"42"}],
    "first_id":"in_7_0","last_id":"in_7_4","has_more":false})"));
}

TEST(input_items, thoughts_are_an_item_before_their_turn) {
  const std::vector<chat_message> thinking{{"assistant", "b", "", {}, "", "hm"}};
  const auto items =
      json::parse(input_item_list("resp_7", thinking, {20, false, ""}).value().text()).at("data");
  EXPECT_EQ(items.at(0), json::parse(R"({"id":"in_7_0","status":"completed","type":"reasoning","summary":[],)"
                                     R"("content":[{"type":"reasoning_text","text":"hm"}]})"));
  EXPECT_EQ(items.at(1).at("type"), "message");
}

TEST(input_items, are_told_in_pages) {
  std::string ids;
  item_page page;
  page.limit = 2;
  for (bool more = true; more;) {
    const auto found = list(page);
    for (const auto& item : found.at("data").as_array()) ids.append(item.at("id").as_string()).append(" ");
    page.after = found.at("last_id").as_string();
    more = found.at("has_more").as_bool();
    ids += "| ";
  }
  EXPECT_EQ(ids, "in_7_4 in_7_3 | in_7_2 in_7_1 | in_7_0 | ");
  EXPECT_TRUE(list(page).at("data").as_array().empty()) << "nothing is after the last";
  page.after = "in_7_5";
  EXPECT_FALSE(input_item_list("resp_7", turns, page));
}

} // namespace
} // namespace paceline::wire::input_items_test
