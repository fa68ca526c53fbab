#include "protocol/wire/json_text.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

TEST(json_text, prints_numbers_without_an_exponent) {
  EXPECT_EQ(json_text(boost::json::object{{"rate", 114.191364}, {"none", 0.0}, {"count", 7}}),
            R"({"rate":114.191364,"none":0.0,"count":7})");
}

TEST(json_text, prints_every_kind_of_value) {
  const std::string text = R"({"a":[1,18446744073709551615,-2,true,null,"x\n"],"b":{}})";
  EXPECT_EQ(json_text(boost::json::parse(text)), text);
}

} // namespace
} // namespace paceline::wire
