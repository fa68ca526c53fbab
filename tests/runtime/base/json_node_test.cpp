#include "runtime/base/json_node.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace paceline {
namespace {

using naming = json_node::naming;

/// The message of the first error after `read` has read `text`. It is empty if there is none.
template <class Read>
std::string failure_of(const char* text, Read read, naming names = naming::path) {
  const boost::json::value document = boost::json::parse(text);
  std::optional<error> failure;
  read(json_node(document, "f.json", failure, names));
  return failure ? failure->message() : "";
}

TEST(json_node, a_place_is_named_by_its_path_or_by_its_key) {
  const auto read = [](const json_node& root) { root["a"]["b"][1]["c"].uint(); };
  const char* text = R"({"a": {"b": [0, {"c": "x"}]}})";
  EXPECT_EQ(failure_of(text, read), "f.json: a.b[1].c must be an integer of 0 to 4294967295");
  EXPECT_EQ(failure_of(text, read, naming::key),
            "f.json: a: b[1]: key 'c' must be an integer of 0 to 4294967295");
}

TEST(json_node, keys_of_the_file_are_escaped_and_shortened) {
  const auto read = [](const json_node& root) {
    for (const auto& [key, value] : root.object()) root[std::string_view(key)]["b"].uint();
  };
  EXPECT_EQ(failure_of(R"({"\u001b[31m\n": {}})", read), "f.json: \\x1b[31m\\x0a.b is missing");
  EXPECT_EQ(failure_of(R"({"\u001b[31m\n": {}})", read, naming::key),
            "f.json: \\x1b[31m\\x0a: key 'b' is missing");
  const std::string document = R"({")" + std::string(5000, 'x') + R"(": 1})";
  EXPECT_EQ(failure_of(document.c_str(), read), "f.json: " + std::string(64, 'x') + "....b is missing");
}

TEST(json_node, the_first_error_counts) {
  EXPECT_EQ(failure_of(R"({"a": 1, "b": 2})",
                       [](const json_node& root) {
                         EXPECT_EQ(root["a"].string(), "");
                         EXPECT_TRUE(root.failed());
                         EXPECT_EQ(root["b"].flag_or(true), true);
                       }),
            "f.json: a must be a string");
}

TEST(json_node, null_counts_as_absent) {
  EXPECT_EQ(failure_of(R"({"a": null})",
                       [](const json_node& root) {
                         EXPECT_FALSE(root["a"]);
                         EXPECT_TRUE(root["a"].is_null());
                         EXPECT_FALSE(root["b"].is_null());
                         EXPECT_EQ(root["a"].uint_or(3), 3U);
                         EXPECT_EQ(root["a"].string_or("x"), "x");
                         EXPECT_EQ(root["b"].setting_or(0.5), 0.5);
                         EXPECT_EQ(root["a"]["deeper"][7].flag_or(true), true);
                       }),
            "");
  for (const char* key : {"a", "b"})
    EXPECT_EQ(failure_of(R"({"a": null})", [&](const json_node& root) { root[key].uint(); }),
              std::string("f.json: ") + key + " is missing");
}

TEST(json_node, numbers_never_convert_silently) {
  for (const char* text : {"[-1]", "[4294967296]", "[1.0]", "[\"1\"]", "[true]", "[18446744073709551615]"})
    EXPECT_NE(failure_of(text, [](const json_node& root) { EXPECT_EQ(root[0].uint(), 0U); }), "") << text;
  EXPECT_EQ(failure_of("[4294967295]", [](const json_node& root) { EXPECT_EQ(root[0].uint(), 4294967295U); }),
            "");
  EXPECT_NE(failure_of("[4]", [](const json_node& root) { root[0].uint_below(4); }), "");
  EXPECT_NE(failure_of("[1e31]", [](const json_node& root) { root[0].setting(); }), "");
  EXPECT_EQ(failure_of("[1e31]", [](const json_node& root) { EXPECT_EQ(root[0].number(), 1e31); }), "");
  EXPECT_EQ(failure_of("[-7]", [](const json_node& root) { EXPECT_EQ(root[0].setting(), -7); }), "");
}

TEST(json_node, a_document_may_be_an_object_or_any_value) {
  const boost::json::object object{{"a", 1}};
  std::optional<error> failure;
  const json_node root(object, "f.json", failure);
  EXPECT_TRUE(root);
  EXPECT_TRUE(root.is_object());
  EXPECT_EQ(root["a"].uint(), 1U);
  EXPECT_EQ(&root.object(), &object);
  EXPECT_FALSE(failure);
  EXPECT_NE(failure_of("3", [](const json_node& other) { EXPECT_TRUE(other.object().empty()); }), "");
}

} // namespace
} // namespace paceline
