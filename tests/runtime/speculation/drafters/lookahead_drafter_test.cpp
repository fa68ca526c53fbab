#include "runtime/speculation/drafters/lookahead_window.hpp"
#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace paceline::speculation {
namespace {

using namespace test;
using paths = std::vector<ids>;

TEST(ngram_pool, keeps_the_last_n_grams_of_each_first_token) {
  ngram_pool pool(2);
  for (const auto& ngram : {ids{1, 2, 3}, ids{1, 4, 5}, ids{2, 9, 9}}) pool.add(tokens_of(ngram));
  const auto after = [&](std::int32_t first) {
    paths all;
    for (const auto& rest : pool.followers(token_id{first})) all.push_back(values_of(rest));
    return all;
  };
  EXPECT_EQ(after(1), (paths{{4, 5}, {2, 3}})) << "the one seen last first";
  pool.add(tokens_of({1, 2, 3}));
  EXPECT_EQ(after(1), (paths{{2, 3}, {4, 5}})) << "seen again";
  pool.add(tokens_of({1, 6, 7}));
  EXPECT_EQ(after(1), (paths{{6, 7}, {2, 3}}));
  EXPECT_EQ(after(3), paths{});
}

/// A window of three columns and two levels, filled with 10, 11, 12 and 20, 21, 22.
lookahead_window small_window() {
  lookahead_window window(3, 3);
  std::int32_t next = 0;
  window.fill([&] {
    const std::int32_t token = next < 3 ? 10 + next : 17 + next;
    ++next;
    return token_id{token};
  });
  return window;
}

/// Every path from the text to a last probe.
paths paths_of(const draft& carrier) {
  paths all;
  for (std::size_t i = 0; i < carrier.probes.size(); ++i) {
    const auto row = static_cast<std::int32_t>(carrier.tree.size() + i);
    if (std::ranges::any_of(carrier.probes, [&](const probe& other) { return other.parent == row; }))
      continue;
    ids path;
    for (const auto at : carrier.path_to(row))
      path.push_back(carrier.probes[static_cast<std::size_t>(at) - carrier.tree.size()].token.value);
    all.push_back(path);
  }
  return all;
}
paths paths_of(const lookahead_window& window) {
  draft carrier;
  window.add_to(carrier);
  return paths_of(carrier);
}
ids tokens_of_probes(const draft& carrier) {
  ids all;
  for (const auto& one : carrier.probes) all.push_back(one.token.value);
  return all;
}

TEST(lookahead_window, its_columns_hang_on_a_chain_of_guesses) {
  const auto window = small_window();
  EXPECT_EQ(window.num_rows(), 6U);
  EXPECT_EQ(window.depth(), 4U);
  EXPECT_EQ(paths_of(window), (paths{{10, 20}, {10, 11, 21}, {10, 11, 12, 22}}));
}

TEST(lookahead_window, completes_an_n_gram_a_column_and_moves_on) {
  auto window = small_window();
  draft carrier;
  carrier.tree.add(token_id{1}, token_tree::root); // a node before the window
  window.add_to(carrier);
  paths ngrams;
  const auto say = [&](std::uint32_t row) { // the target's answer encodes which token it continues
    return token_id{100 + carrier.probes[row].token.value};
  };
  const auto report = [&](std::span<const token_id> ngram) { ngrams.push_back(values_of(ngram)); };
  const auto guess = [] { return token_id{7}; };
  window.advance(1, say, report, guess);
  EXPECT_EQ(ngrams, (paths{{10, 20, 120}, {11, 21, 121}, {12, 22, 122}}));
  EXPECT_EQ(paths_of(window), (paths{{20, 120}, {20, 21, 121}, {20, 21, 22, 122}}));
}

TEST(lookahead_window, columns_that_were_committed_make_room_for_guesses) {
  auto window = small_window();
  const auto say = [](std::uint32_t) { return token_id{99}; };
  const auto guess = [] { return token_id{7}; };
  window.advance(
      3, say, [](auto) {}, guess);
  EXPECT_EQ(paths_of(window), (paths{{22, 99}, {22, 7, 7}, {22, 7, 7, 7}}))
      << "two more than one: two columns";
  window.advance(
      50, say, [](auto) {}, guess);
  EXPECT_EQ(paths_of(window), (paths{{7, 7}, {7, 7, 7}, {7, 7, 7, 7}}));
}

config::drafter_options lookahead_options() {
  auto options = options_of("l", "lookahead");
  options.lookahead_window = 2;
  options.lookahead_ngram = 3;
  options.lookahead_guesses = 2;
  return options;
}

TEST(lookahead_drafter, verifies_n_grams_of_the_text_and_carries_the_window_as_probes) {
  const auto drafter = built_in(lookahead_options());
  EXPECT_EQ(drafter->traits().where, placement::in_pass);
  EXPECT_EQ(drafter->traits().top_tokens, 1U);
  EXPECT_EQ(drafter->max_nodes(2), 2U * 2U);
  EXPECT_EQ(drafter->max_probes(), 2U * 2U);
  drafted_request request(*drafter);
  const auto draft = request.propose({1, 2, 3, 1, 4, 5, 1}, 4);
  EXPECT_EQ(draft.probes.size(), 4U);
  EXPECT_TRUE(draft.tree.valid());
  EXPECT_EQ(drafted_request::paths_of(draft.tree), (paths{{4, 5}, {2, 3}}));
  EXPECT_TRUE(validate_draft(draft, 10, 4, 64));
}

TEST(lookahead_drafter, n_grams_that_the_target_completed_are_verified_when_their_first_token_comes) {
  const auto drafter = built_in(lookahead_options());
  drafted_request request(*drafter);
  const auto first = request.propose({1, 2}, 4);
  ASSERT_EQ(first.probes.size(), 4U);
  ASSERT_TRUE(first.tree.empty());
  // Nodes: a0, a1 of level 0, then b0 below a0, b1 below a1. The target continues b0 with 50, b1 with 51.
  request.last_round = round_feedback{
      .verified = first, .accepted_path = {}, .num_top = 1, .top_tokens = tokens_of({3, 40, 41, 50, 51})};
  const auto tokens = tokens_of_probes(first);
  const auto next = request.propose({1, 2, tokens[0]}, 4); // the window's first guess was committed
  const auto verified = drafted_request::paths_of(next.tree);
  EXPECT_NE(std::ranges::find(verified, ids{tokens[2], 50}), verified.end());
  EXPECT_EQ(tokens_of_probes(next), (ids{tokens[2], tokens[3], 50, 51})) << "the levels moved up";
}

TEST(lookahead_drafter, a_window_that_was_cut_is_not_learnt_from) {
  const auto drafter = built_in(lookahead_options());
  drafted_request request(*drafter);
  auto cut = request.propose({1, 2}, 4);
  const auto before = tokens_of_probes(cut);
  cut.truncate(3);
  request.last_round = round_feedback{
      .verified = cut, .accepted_path = {}, .num_top = 1, .top_tokens = tokens_of({3, 40, 41, 50})};
  const auto next = request.propose({1, 2, 3}, 4);
  EXPECT_EQ(tokens_of_probes(next), before);
}

TEST(lookahead_drafter, leaves_the_window_out_where_there_is_no_room) {
  const auto drafter = built_in(lookahead_options());
  drafted_request request(*drafter);
  request.max_nodes = request.max_rows = 3;
  const auto draft = request.propose({1, 2, 3, 1}, 3);
  EXPECT_TRUE(draft.probes.empty());
  EXPECT_EQ(values_of(draft.tree.tokens()), (ids{2, 3}));
}

/// The paper's setting: W = 15, N = 5, G = 15.
TEST(lookahead_drafter, holds_a_window_of_15_by_5_beside_15_guesses) {
  auto options = lookahead_options();
  options.lookahead_window = options.lookahead_guesses = 15;
  options.lookahead_ngram = 5;
  const auto drafter = built_in(options);
  EXPECT_EQ(drafter->max_nodes(4), 60U);
  EXPECT_EQ(drafter->max_probes(), 60U);
  drafted_request request(*drafter);
  ids text;
  for (std::int32_t i = 0; i < 15; ++i) // a token with fifteen continuations
    for (const std::int32_t token : {1, 100 + i, 200 + i, 300 + i, 400 + i}) text.push_back(token);
  text.push_back(1);
  const auto draft = request.propose(text, 4);
  EXPECT_EQ(draft.tree.size(), 60U);
  EXPECT_EQ(draft.probes.size(), 60U);
  EXPECT_TRUE(validate_draft(draft, 1000, 4, 64));
}

/// If a request's seed were the number used here, its own noise would choose the guesses.
TEST(lookahead_drafter, guesses_by_other_noise_than_a_request_samples_with) {
  auto options = lookahead_options();
  options.lookahead_window = 15;
  const auto drafter = built_in(options);
  drafted_request request(*drafter, {}, 7);
  ids text(1000);
  std::iota(text.begin(), text.end(), 0);
  const auto guessed = request.propose(text, 4).probes;
  ASSERT_GE(guessed.size(), 15U);
  for (const auto purpose : {noise_purpose::target, noise_purpose::draft}) {
    int num_same = 0;
    for (std::uint32_t i = 0; i < 15; ++i) {
      const noise_stream own{.seed = 7, .position = token_position{i}, .purpose = purpose};
      num_same += static_cast<std::uint32_t>(guessed[i].token.value) == own.words(0)[0] % 1000 ? 1 : 0;
    }
    EXPECT_LT(num_same, 3);
  }
}

TEST(lookahead_drafter, refuses_windows_of_too_many_rows_by_name) {
  auto options = lookahead_options();
  options.lookahead_ngram = 8;
  options.lookahead_window = 19;
  EXPECT_THROW(built_in(options), std::runtime_error);
}

} // namespace
} // namespace paceline::speculation
