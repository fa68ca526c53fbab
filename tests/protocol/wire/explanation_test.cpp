#include "protocol/wire/explanation.hpp"

#include <gtest/gtest.h>

namespace paceline::wire {
namespace {

speculation_stats stats_of(std::string drafter, std::uint32_t num_open, std::uint32_t num_verified,
                           std::uint32_t num_full, std::uint32_t num_draft, std::uint32_t num_accepted) {
  speculation_stats stats;
  stats.drafter = std::move(drafter);
  stats.num_open_rounds = num_open;
  stats.num_rounds = num_verified;
  stats.num_full_rounds = num_full;
  stats.num_draft_tokens = num_draft;
  stats.num_accepted_tokens = num_accepted;
  return stats;
}

speculation_stats with(speculation_stats stats, draft_account account) {
  stats.weighed = std::make_shared<const draft_account>(std::move(account));
  return stats;
}

/// 52 rounds of "auto", 31 of them with a draft.
speculation_stats stats_of_auto() { return stats_of("auto", 52, 31, 10, 70, 41); }
draft_account account_of_auto() {
  return {{{"forced", 0, 0, 0, 0}, {"ngram", 25, 20, 52.5, 31}, {"suffix", 30, 11, 45, 36}}, 52, 12, 1};
}

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

TEST(explanation, of_auto_names_candidates_acceptance_promise_and_the_main_limit) {
  EXPECT_EQ(
      explain(with(stats_of_auto(), account_of_auto())),
      "auto weighed forced, ngram and suffix in 52 rounds; drafts were verified in 31 (ngram in 20 and "
      "suffix in 11), and 41 of 70 draft tokens were accepted; a draft of ngram promised on average 2.10 "
      "times the tokens of a plain pass for 1.24 times its time; what limited the speed most: in 21 "
      "rounds a draft token was rejected");
}

TEST(explanation, of_auto_without_a_verified_draft_says_what_was_not_worth_its_time) {
  const auto stats =
      with(stats_of("auto", 40, 0, 0, 0, 0),
           draft_account{{{"ngram", 9, 0, 9.9, 9.9}, {"suffix", 37, 0, 41.44, 44.77}}, 40, 3, 0});
  EXPECT_EQ(explain(stats),
            "auto weighed ngram and suffix in 40 rounds; no draft was verified; a draft of ngram promised on "
            "average 1.10 times the tokens of a plain pass for 1.10 times its time; what limited the speed "
            "most: in 37 rounds no draft was worth its time");
}

TEST(explanation, of_auto_with_nothing_proposed_has_no_promise_to_tell) {
  const auto stats = with(stats_of("auto", 1, 0, 0, 0, 0), draft_account{{{"ngram", 0, 0, 0, 0}}, 1, 1, 0});
  EXPECT_EQ(explain(stats),
            "auto weighed ngram in 1 round; no draft was verified; what limited the speed most: "
            "in 1 round no drafter proposed a token");
}

TEST(explanation, the_main_limit_is_that_of_most_rounds) {
  auto stats = stats_of_auto();
  auto account = account_of_auto();
  stats.num_full_rounds = 25;
  EXPECT_TRUE(ends_with(explain(with(stats, account)),
                        "in 25 rounds the whole draft was accepted, so a longer one could have helped"));
  stats = stats_of_auto();
  account.num_rounds = 82;
  EXPECT_TRUE(ends_with(explain(with(stats, account)), "in 38 rounds no draft was worth its time"));
  account.num_without_proposal = 42;
  EXPECT_TRUE(ends_with(explain(with(stats, account)), "in 42 rounds no drafter proposed a token"));
  account = account_of_auto();
  account.num_plain_to_measure = 22;
  EXPECT_TRUE(
      ends_with(explain(with(stats, account)), "in 22 rounds a plain pass was run to measure its time"));
}

TEST(explanation, of_one_drafter_tells_acceptance) {
  EXPECT_EQ(
      explain(stats_of("ngram", 50, 20, 4, 70, 41)),
      "ngram could draft in 50 rounds; drafts were verified in 20, and 41 of 70 draft tokens were accepted; "
      "what limited the speed most: in 30 rounds there was no draft");
  EXPECT_EQ(
      explain(stats_of("model", 7, 0, 0, 0, 0)),
      "model could draft in 7 rounds; no draft was verified; what limited the speed most: in 7 rounds there "
      "was no draft");
  EXPECT_TRUE(
      ends_with(explain(stats_of("model", 30, 30, 4, 90, 41)), "in 26 rounds a draft token was rejected"));
}

TEST(explanation, is_empty_where_nothing_could_be_drafted) {
  EXPECT_EQ(explain({}), "");
  EXPECT_EQ(explain(stats_of("ngram", 0, 0, 0, 0, 0)), "");
  EXPECT_EQ(explain(with(stats_of("auto", 0, 0, 0, 0, 0), {})), "");
}

} // namespace
} // namespace paceline::wire
