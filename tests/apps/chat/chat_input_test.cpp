#include "apps/chat/chat_input.hpp"
#include "apps/chat/race.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

/// The messages that lines make.
std::vector<std::string> messages_of(const std::vector<std::string>& lines) {
  message_lines reader;
  std::vector<std::string> out;
  for (const auto& line : lines)
    if (auto message = reader.add(line)) out.push_back(*message);
  EXPECT_FALSE(reader.is_open());
  return out;
}

using texts = std::vector<std::string>;

TEST(message_lines, a_line_is_a_message) {
  EXPECT_EQ(messages_of({"one", "", "two"}), (texts{"one", "", "two"}));
}

TEST(message_lines, a_backslash_joins_lines) {
  EXPECT_EQ(messages_of({"one\\", "two\\", "three", "four"}), (texts{"one\ntwo\nthree", "four"}));
}

TEST(message_lines, quotes_join_lines) {
  EXPECT_EQ(messages_of({R"("""one)", R"(two\)", "", R"(three""")"}), (texts{"one\ntwo\\\n\nthree"}));
  EXPECT_EQ(messages_of({R"(""")", "  code", R"(""")"}), (texts{"  code"}));
  EXPECT_EQ(messages_of({R"("""one""")", R"(say """this""")"}), (texts{"one", R"(say """this""")"}));
}

TEST(message_lines, what_is_incomplete_can_be_forgotten) {
  message_lines reader;
  EXPECT_EQ(reader.add("one\\"), std::nullopt);
  EXPECT_TRUE(reader.is_open());
  reader.reset();
  EXPECT_FALSE(reader.is_open());
  EXPECT_EQ(reader.add("two"), "two");
}

TEST(message_lines, what_is_incomplete_can_be_ended) {
  message_lines reader;
  EXPECT_EQ(reader.add("one\\"), std::nullopt);
  EXPECT_EQ(reader.add("two\\"), std::nullopt);
  EXPECT_FALSE(reader.is_quoted());
  EXPECT_EQ(reader.finish(), "one\ntwo");
  EXPECT_FALSE(reader.is_open());
  EXPECT_EQ(reader.add(R"("""three)"), std::nullopt);
  EXPECT_TRUE(reader.is_quoted());
}

chat_order order_in(const std::string& text) { return std::get<chat_order>(read_message(text)); }

TEST(read_message, commands_have_names_and_arguments) {
  EXPECT_EQ(order_in("/new").what, chat_command::fresh);
  EXPECT_EQ(order_in("/bye  ").what, chat_command::bye);
  EXPECT_EQ(order_in("/drafter  ngram ").argument, "ngram");
  EXPECT_EQ(order_in("/system Be brief.\nBe kind.").argument, "Be brief.\nBe kind.");
  EXPECT_EQ(order_in("/race").argument, "");
}

TEST(read_message, everything_else_is_for_the_model) {
  for (const auto* text : {"hello", "/", "/usr/bin", "/2", "//new", " /new", "/New", "a /new", "/new!"})
    EXPECT_EQ(std::get<std::string>(read_message(text)), text);
  EXPECT_EQ(std::get<std::string>(read_message("")), "");
}

TEST(read_message, a_mistyped_command_is_named) {
  const auto unknown = std::get<unknown_order>(read_message("/draftre ngram"));
  EXPECT_EQ(unknown.word, "draftre");
  EXPECT_EQ(unknown.nearest, "drafter");
  EXPECT_EQ(std::get<unknown_order>(read_message("/xyzzy")).nearest, "");
}

TEST(read_message, the_help_names_every_command) {
  for (const auto* name : {"/new", "/system", "/drafter", "/race", "/trace", "/bye"})
    EXPECT_NE(chat_help().find(name), std::string_view::npos) << name;
}

race_run run_of(const char* name, std::vector<std::int32_t> tokens, double seconds) {
  race_run run{name, {}, std::chrono::duration<double>(seconds)};
  for (const auto token : tokens) run.result.tokens.emplace_back(token);
  return run;
}

TEST(race_report, has_both_times_and_the_tokens_in_common) {
  const auto report = race_report(run_of("plain", {1, 2, 3, 4}, 2), run_of("ngram", {1, 2, 3, 4}, 0.5));
  EXPECT_NE(report.find("plain  4 tokens in 2.00 s, 2.0 tokens/s\n"), std::string::npos) << report;
  EXPECT_NE(report.find("ngram  4 tokens in 0.50 s, 8.0 tokens/s: 4.00 times as fast\n"), std::string::npos)
      << report;
  EXPECT_NE(report.find("identical: 4 of 4 tokens\n"), std::string::npos) << report;
}

TEST(race_report, counts_up_to_the_first_difference) {
  EXPECT_NE(
      race_report(run_of("plain", {1, 2, 3}, 1), run_of("ngram", {1, 7, 3}, 1)).find("identical: 1 of 3"),
      std::string::npos);
  EXPECT_NE(race_report(run_of("plain", {1, 2, 3}, 1), run_of("ngram", {1, 2}, 1)).find("identical: 2 of 3"),
            std::string::npos);
}

} // namespace
} // namespace paceline::apps
