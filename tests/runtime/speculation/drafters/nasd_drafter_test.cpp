#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

using namespace test;

config::drafter_options nasd_options() {
  auto options = options_of("n", "nasd");
  options.ngram_min = 2;
  options.ngram_max = 3;
  options.top_tokens = 2;
  return options;
}

TEST(nasd_drafter, proposes_the_most_frequent_token_after_the_longest_known_context) {
  const auto drafter = built_in(nasd_options());
  drafted_request request(*drafter);
  EXPECT_EQ(request.chain({1, 2, 3, 9, 2, 4, 9, 2, 4, 9, 1, 2}, 1), (ids{3})) << "two tokens agree, once";
  drafted_request other(*drafter);
  EXPECT_EQ(other.chain({1, 2, 3, 9, 2, 4, 8, 2, 4, 7, 6, 2}, 1), (ids{4}))
      << "one token agrees, three times";
  EXPECT_EQ(drafted_request(*drafter).chain({1, 2, 3, 1}, 5), (ids{2, 3, 1, 2, 3}))
      << "and on from its own draft";
  EXPECT_EQ(drafted_request(*drafter).chain({1, 2, 3}, 5), ids{});
}

TEST(nasd_drafter, asks_for_the_targets_best_tokens) {
  EXPECT_EQ(built_in(nasd_options())->traits().top_tokens, 2U);
}

/// The target's best tokens after the text {1, 2} and the draft's nodes.
round_feedback said(std::uint32_t base, const ids& chain, const ids& top) {
  round_feedback round;
  round.verified.base_length = base;
  for (const auto token : chain)
    round.verified.tree.add(token_id{token}, static_cast<std::int32_t>(round.verified.tree.size()) - 1);
  round.num_top = 2;
  round.top_tokens = tokens_of(top);
  return round;
}

TEST(nasd_drafter, learns_the_targets_best_tokens_where_the_text_shows_nothing) {
  const auto drafter = built_in(nasd_options());
  drafted_request request(*drafter);
  EXPECT_EQ(request.chain({1, 2}, 3), ids{});
  // After 2: 5, then 6. After the draft 7 (rejected): 8, then 9.
  request.last_round = said(2, {7}, {5, 6, 8, 9});
  EXPECT_EQ(request.chain({1, 2, 5, 2}, 1), (ids{5}));
  EXPECT_EQ(request.chain({1, 2, 5, 2, 7}, 1), (ids{8})) << "at rejected positions too";
  EXPECT_EQ(request.chain({1, 2, 5, 2, 7, 2}, 1), (ids{5}));
}

TEST(nasd_drafter, a_better_rank_weighs_more_and_a_round_counts_once) {
  const auto drafter = built_in(nasd_options());
  drafted_request request(*drafter);
  request.last_round = said(2, {}, {5, 6}); // 5 weighs 2, 6 weighs 1
  EXPECT_EQ(request.chain({1, 2, 3, 2}, 1), (ids{3})) << "3 and 5 weigh the same: the lowest id";
  request.chain({1, 2, 3, 2}, 1);
  EXPECT_EQ(request.chain({1, 2, 3, 2}, 1), (ids{3})) << "the same round again changes nothing";
  request.last_round = said(4, {}, {6, 5}); // now 5 and 6 weigh 3, after two tokens 2 and 1
  EXPECT_EQ(request.chain({1, 2, 3, 2, 8, 9, 2}, 1), (ids{5}));
}

TEST(nasd_drafter, rows_without_finite_logits_teach_nothing) {
  const auto drafter = built_in(nasd_options());
  drafted_request request(*drafter);
  request.last_round = said(2, {}, {-1, -1});
  EXPECT_EQ(request.chain({1, 2}, 1), ids{});
}

TEST(nasd_drafter, refuses_contexts_of_no_token_by_name) {
  auto options = nasd_options();
  options.ngram_min = 1;
  EXPECT_THROW(built_in(options), std::runtime_error);
  options = nasd_options();
  options.top_tokens = 17;
  EXPECT_THROW(built_in(options), std::runtime_error);
}

} // namespace
} // namespace paceline::speculation
