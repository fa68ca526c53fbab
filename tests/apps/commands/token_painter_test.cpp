#include "apps/commands/token_painter.hpp"

#include "engine/hash_vocabulary.hpp"

#include <gtest/gtest.h>

namespace paceline::apps {
namespace {

/// Tokens are bytes.
const tokenizer::tokenizer& vocabulary() {
  static const auto made = tokenizer::tokenizer::from_vocabulary(hash_vocabulary(300)).value();
  return made;
}

/// A round of whose draft `drafted` the first `num_accepted` tokens were accepted.
token_event round_of(std::string_view committed, std::size_t num_drafted, std::size_t num_accepted,
                     bool bonus) {
  token_event event;
  event.text = committed;
  for (const char c : committed) event.tokens.push_back(vocabulary().encode(std::string(1, c))->back());
  round_trace trace;
  trace.draft_tokens.resize(num_drafted);
  for (std::size_t i = 0; i < num_accepted; ++i) trace.accepted.push_back(static_cast<std::int32_t>(i));
  trace.bonus = bonus;
  event.trace = trace;
  return event;
}

TEST(token_painter, colours_tell_the_origin) {
  token_painter painter(vocabulary(), painting::coloured);
  EXPECT_EQ(painter.show(round_of("a", 0, 0, false)), "a");
  EXPECT_EQ(painter.show(round_of("bcd", 4, 2, false)), "\x1b[32mb\x1b[0m\x1b[32mc\x1b[0m\x1b[33md\x1b[0m");
  EXPECT_EQ(painter.show(round_of("ef", 1, 1, true)), "\x1b[32me\x1b[0m\x1b[36mf\x1b[0m");
}

TEST(token_painter, a_pipe_gets_the_text_as_it_is) {
  token_painter painter(vocabulary(), painting::none);
  EXPECT_EQ(painter.show(round_of("b\x1b", 4, 2, false)), "b\x1b");
}

TEST(token_painter, a_terminal_gets_no_control_characters) {
  token_painter plain(vocabulary(), painting::plain);
  EXPECT_EQ(plain.show(round_of("b\x1b\n", 4, 2, false)), "b\uFFFD\n");
  token_painter coloured(vocabulary(), painting::coloured);
  EXPECT_EQ(coloured.show(round_of("\x1b\a", 1, 1, true)), "\x1b[32m\uFFFD\x1b[0m\x1b[36m\uFFFD\x1b[0m");
}

TEST(token_painter, a_text_that_lags_behind_keeps_the_colours_of_its_tokens) {
  token_painter painter(vocabulary(), painting::coloured);
  auto first = round_of("ab", 1, 1, true);
  first.text = "a"; // the rest may be the beginning of a stop string
  EXPECT_EQ(painter.show(first), "\x1b[32ma\x1b[0m");
  auto second = round_of("c", 0, 0, false);
  second.text = "bc";
  EXPECT_EQ(painter.show(second), "\x1b[36mb\x1b[0mc");
}

TEST(token_painter, a_token_whose_text_comes_in_two_parts_keeps_its_colour) {
  token_painter painter(vocabulary(), painting::coloured);
  auto first = round_of("", 1, 1, true);
  first.tokens = {token_id{264}, token_id{'x'}};
  first.text = "[26"; // "4" may be the beginning of a stop string
  EXPECT_EQ(painter.show(first), "\x1b[32m[26\x1b[0m");
  token_event rest;
  rest.text = "4]x";
  EXPECT_EQ(painter.show(rest), "\x1b[32m4]\x1b[0m\x1b[36mx\x1b[0m");
}

TEST(token_origin, a_round_that_ended_within_its_draft_has_accepted_tokens_only) {
  const auto event = round_of("bc", 4, 3, false); // a stop token was the third
  EXPECT_EQ(origin_of(event, 0), token_origin::accepted);
  EXPECT_EQ(origin_of(event, 1), token_origin::accepted);
}

} // namespace
} // namespace paceline::apps
