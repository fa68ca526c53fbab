#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

namespace paceline::speculation {
namespace {

using namespace test;
using paths = std::vector<ids>;

config::drafter_options suffix_options() {
  auto options = options_of("s", "suffix");
  options.min_probability = 0;
  return options;
}

TEST(suffix_drafter, proposes_by_frequency_what_followed_the_longest_suffix) {
  const auto drafter = built_in(suffix_options());
  drafted_request request(*drafter);
  const ids text{1, 2, 7, 0, 1, 2, 8, 0, 1, 2, 8, 0, 1, 2};
  const auto draft = request.propose(text, 3);
  const auto& tree = draft.tree;
  ASSERT_FALSE(tree.empty());
  EXPECT_EQ(tree.tokens()[0].value, 8) << "twice of three times, and the longer agreement";
  EXPECT_TRUE(tree.valid());
  EXPECT_TRUE(draft.probs.empty());
}

TEST(suffix_drafter, alternatives_are_branches_in_order_of_frequency) {
  const auto drafter = built_in(suffix_options());
  drafted_request request(*drafter);
  request.max_nodes = 4;
  const auto found = request.paths({9, 1, 7, 6, 5, 1, 8, 3, 4, 1, 8, 3, 2, 1}, 2);
  EXPECT_EQ(found, (paths{{8, 3}, {7, 6}}));
}

TEST(suffix_drafter, a_longer_agreement_is_trusted_further) {
  const auto drafter = built_in(suffix_options());
  drafted_request request(*drafter);
  EXPECT_EQ(request.chain({5, 1, 2, 3, 4, 6, 7, 8, 9, 5}, 8), (ids{1, 2})) << "one token: two levels";
  drafted_request other(*drafter);
  EXPECT_EQ(other.chain({4, 5, 1, 2, 3, 9, 6, 7, 8, 4, 5}, 8), (ids{1, 2, 3, 9}))
      << "two tokens: four levels";
}

TEST(suffix_drafter, unlikely_branches_are_left_out) {
  auto options = suffix_options();
  options.min_probability = 0.5F;
  const auto drafter = built_in(options);
  drafted_request request(*drafter);
  EXPECT_EQ(request.chain({9, 1, 7, 6, 5, 1, 8, 3, 4, 1, 8, 3, 2, 1}, 2), (ids{8, 3}));
}

TEST(suffix_drafter, remembers_the_outputs_of_ended_requests_of_the_same_tenant_only) {
  const auto drafter = built_in(suffix_options());
  {
    drafted_request first(*drafter, "ann", 1);
    first.prompt_length = 2;
    first.propose({100, 101, 1, 2, 3, 4, 5, 6}, 4);
  }
  drafted_request same(*drafter, "ann", 2);
  same.prompt_length = 1;
  EXPECT_EQ(same.chain({50, 1, 2, 3}, 3), (ids{4, 5, 6}));
  EXPECT_EQ(drafted_request(*drafter, "ann", 3).chain({100}, 3), ids{}) << "prompts are not remembered";
  drafted_request other(*drafter, "bob", 4);
  EXPECT_EQ(other.chain({50, 1, 2, 3}, 3), ids{});
  drafted_request nobody(*drafter, "", 5);
  EXPECT_EQ(nobody.chain({50, 1, 2, 3}, 3), ids{});
}

TEST(suffix_drafter, remembers_what_the_last_round_of_a_request_committed) {
  const auto drafter = built_in(suffix_options());
  drafted_request first(*drafter, "ann", 1);
  first.prompt_length = 2;
  first.propose({100, 101, 1, 2, 3}, 4);
  first.end({4, 5, 6});
  drafted_request same(*drafter, "ann", 2);
  same.prompt_length = 1;
  EXPECT_EQ(same.chain({50, 1, 2, 3}, 3), (ids{4, 5, 6}));
}

TEST(suffix_drafter, a_running_request_is_not_seen_by_others) {
  const auto drafter = built_in(suffix_options());
  drafted_request running(*drafter, "ann", 1);
  running.prompt_length = 1;
  running.propose({100, 1, 2, 3, 4}, 4);
  drafted_request same(*drafter, "ann", 2);
  EXPECT_EQ(same.chain({1, 2}, 3), ids{});
}

TEST(suffix_drafter, its_own_text_wins_where_it_promises_as_much) {
  const auto drafter = built_in(suffix_options());
  {
    drafted_request first(*drafter, "", 1);
    first.propose({1, 2, 3, 4, 5, 6}, 4);
  }
  drafted_request request(*drafter, "", 2);
  EXPECT_EQ(request.chain({1, 2, 7, 8, 1, 2}, 2), (ids{7, 8}));
  drafted_request fresh(*drafter, "", 3);
  EXPECT_EQ(fresh.chain({1, 2}, 2), (ids{3, 4}));
}

TEST(suffix_drafter, a_session_may_outlive_its_drafter) {
  auto drafter = built_in(suffix_options());
  drafted_request request(*drafter, "", 1);
  request.propose({1, 2, 3, 4}, 4);
  drafter.reset();
}

TEST(suffix_drafter, refuses_options_out_of_range_by_name) {
  auto options = suffix_options();
  options.suffix_max = 65;
  EXPECT_THROW(built_in(options), std::runtime_error);
  options = suffix_options();
  options.min_probability = 1.5F;
  EXPECT_THROW(built_in(options), std::runtime_error);
}

} // namespace
} // namespace paceline::speculation
