#include "server/sessions/stop_finder.hpp"

#include "scripted_backend.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

struct finding {
  byte_model model;
  stop_finder finder;

  explicit finding(std::vector<std::string> strings, bool skips_special = true) {
    stop_params stop;
    stop.stop_strings = std::move(strings);
    finder = stop_finder(stop, model, skips_special);
  }
  std::string after(std::string_view text, std::optional<int> last = std::nullopt) {
    for (const char c : text) { // in events of one token
      token_event event;
      event.tokens = {token_id{static_cast<unsigned char>(c)}};
      finder.read(event);
    }
    if (last) {
      token_event event;
      event.tokens = {token_id{*last}};
      finder.read(event);
    }
    return finder.found();
  }
};

TEST(stop_finder, finds_the_string_that_ends_with_the_text) {
  EXPECT_EQ(finding({"END", "STOP"}).after("abc STOP"), "STOP");
  EXPECT_EQ(finding({"END", "STOP"}).after("abc END"), "END");
  EXPECT_EQ(finding({"ND", "END"}).after("abc END"), "END") << "the longest of those that end together";
  EXPECT_EQ(finding({"END"}).after("END abc"), "") << "it was no end";
  EXPECT_EQ(finding({"END"}).after("EN"), "");
  EXPECT_EQ(finding({}).after("END"), "");
  EXPECT_EQ(finding({"END"}).after(std::string(20'000, 'x') + "END"), "END");
}

TEST(stop_finder, a_token_that_ends_the_turn_is_no_string) {
  EXPECT_EQ(finding({"END"}).after("abc END", 257), "");
  EXPECT_EQ(finding({"<257>"}).after("abc", 257), "") << "the text has no special tokens";
  EXPECT_EQ(finding({"<257>"}, false).after("abc", 257), "<257>");
  EXPECT_EQ(finding({"57", "25"}, false).after("abc", 257), "25") << "the first that ends in the last token";
}

} // namespace
} // namespace paceline::server
