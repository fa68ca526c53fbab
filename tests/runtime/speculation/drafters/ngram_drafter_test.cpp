#include "runtime/speculation/drafters/ngram_drafter.hpp"

#include "runtime/device/ops.hpp"
#include "tests/support/draft_tasks.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::speculation {
namespace {

std::unique_ptr<drafter> make(std::uint32_t min_length, std::uint32_t max_length) {
  config::drafter_options options = test::options_of("lookup", "ngram");
  options.ngram_min = min_length;
  options.ngram_max = max_length;
  auto made = make_ngram_drafter({.options = options});
  EXPECT_TRUE(made);
  return std::move(*made);
}

std::vector<std::int32_t> propose(drafter& from, drafter_session* session,
                                  const std::vector<std::int32_t>& text, std::uint32_t length) {
  std::vector<token_id> tokens;
  for (const std::int32_t token : text) tokens.push_back(token_id{token});
  draft_task task{};
  task.tokens = tokens;
  task.draft_length = length;
  task.session = session;
  test::no_ops ops;
  from.propose(ops, nullptr, {&task, 1});
  EXPECT_EQ(task.result.base_length, text.size());
  EXPECT_TRUE(task.result.tree.is_chain());
  EXPECT_TRUE(task.result.probs.empty()) << "a looked-up token is a certain choice";
  std::vector<std::int32_t> draft;
  for (const token_id token : task.result.tree.tokens()) draft.push_back(token.value);
  return draft;
}

std::vector<std::int32_t> propose(const std::vector<std::int32_t>& text, std::uint32_t length,
                                  std::uint32_t min_length = 1, std::uint32_t max_length = 3) {
  const auto drafter = make(min_length, max_length);
  const auto session = drafter->open(request_id{1});
  return propose(*drafter, session.get(), text, length);
}

using ids = std::vector<std::int32_t>;

TEST(ngram_drafter, proposes_what_followed_the_longest_suffix_the_last_time) {
  EXPECT_EQ(propose({1, 2, 7, 9, 9, 2, 8, 5, 1, 2}, 2), (ids{7, 9})) << "a longer match beats a later one";
  EXPECT_EQ(propose({2, 7, 3, 2, 8, 4, 2}, 2), (ids{8, 4})) << "of equal lengths the later one";
}

TEST(ngram_drafter, continues_a_period_beyond_the_end_of_the_text) {
  EXPECT_EQ(propose({4, 5, 6, 4, 5, 6}, 7), (ids{4, 5, 6, 4, 5, 6, 4}));
  EXPECT_EQ(propose({3, 3}, 4), (ids{3, 3, 3, 3}));
}

TEST(ngram_drafter, proposes_nothing_without_a_match_of_the_least_length) {
  EXPECT_EQ(propose({1, 2, 3}, 4), ids{});
  EXPECT_EQ(propose({1, 2, 5, 2}, 4, 2), ids{});
  EXPECT_EQ(propose({1}, 4), ids{});
  EXPECT_EQ(propose({}, 4), ids{});
  EXPECT_EQ(propose({7, 7, 7}, 0), ids{});
}

TEST(ngram_drafter, learns_a_growing_text_and_catches_up_with_a_long_one_over_several_calls) {
  const auto drafter = make(2, 3);
  const auto session = drafter->open(request_id{1});
  EXPECT_EQ(propose(*drafter, session.get(), {1, 2, 3}, 3), ids{});
  EXPECT_EQ(propose(*drafter, session.get(), {1, 2, 3, 1, 2}, 1), (ids{3}));
  ids text(9000);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i % 5000);
  const auto fresh = drafter->open(request_id{2});
  EXPECT_EQ(propose(*drafter, fresh.get(), text, 2), ids{});
  EXPECT_EQ(propose(*drafter, fresh.get(), text, 2), ids{});
  EXPECT_EQ(propose(*drafter, fresh.get(), text, 2), (ids{4000, 4001}));
}

TEST(ngram_drafter, says_that_its_draft_is_empty_because_it_is_still_reading) {
  const auto drafter = make(2, 3);
  test::drafted_request request(*drafter);
  std::vector<bool> reading;
  for (int call = 0; call < 3; ++call) reading.push_back(request.propose(ids(9000, 7), 2).catching_up);
  EXPECT_EQ(reading, (std::vector<bool>{true, true, false}));
}

std::vector<test::ids> candidates(const test::ids& text, std::uint32_t length, std::uint32_t number,
                                  std::uint32_t max_nodes = 64,
                                  verification_rule rule = verification_rule::coupled) {
  config::drafter_options options = test::options_of("lookup", "ngram");
  options.ngram_min = 1;
  options.ngram_max = 3;
  options.candidates = number;
  const auto drafter = test::built_in(options);
  EXPECT_LE(drafter->max_nodes(length), 64U);
  test::drafted_request request(*drafter);
  request.max_nodes = max_nodes;
  request.rule = rule;
  request.temperature = 1.0F;
  return request.paths(text, length);
}

using paths = std::vector<test::ids>;

TEST(ngram_drafter, several_candidates_share_prefixes_in_a_tree) {
  const ids text{1, 7, 8, 9, 1, 7, 5, 6, 1, 3, 4, 2, 1};
  EXPECT_EQ(candidates(text, 2, 1), (paths{{3, 4}}));
  EXPECT_EQ(candidates(text, 2, 3), (paths{{3, 4}, {7, 5}, {7, 8}}));
  EXPECT_EQ(candidates(text, 2, 2), (paths{{3, 4}, {7, 5}}));
  const ids same{1, 7, 8, 1, 7, 8, 2, 1};
  EXPECT_EQ(candidates(same, 2, 4), (paths{{7, 8}})) << "distinct continuations only";
}

TEST(ngram_drafter, the_first_candidate_is_what_one_alone_would_be) {
  const ids text{1, 2, 7, 9, 9, 2, 8, 5, 2, 8, 6, 1, 2};
  EXPECT_EQ(candidates(text, 2, 1), (paths{{7, 9}}));
  EXPECT_EQ(candidates(text, 2, 3), (paths{{7, 9}, {8, 6}, {8, 5}})) << "a longer match before a later one";
  const ids frequent{2, 4, 3, 2, 4, 3, 2, 5, 3, 2, 6, 9, 2};
  EXPECT_EQ(candidates(frequent, 1, 2), (paths{{6}, {4}})) << "then the more frequent one";
}

TEST(ngram_drafter, a_tree_keeps_to_its_nodes_by_every_rule) {
  const ids text{1, 7, 8, 9, 1, 7, 5, 6, 1, 3, 4, 2, 1};
  EXPECT_EQ(candidates(text, 2, 3, 3), (paths{{3, 4}, {7}}));
  EXPECT_EQ(candidates(text, 2, 3, 0), (paths{{3, 4}})) << "never less than one branch";
  EXPECT_EQ(candidates(text, 2, 3, 3, verification_rule::rejection), (paths{{3, 4}, {7}}));
}

TEST(ngram_drafter, refuses_lengths_out_of_range_by_name) {
  config::drafter_options options = test::options_of("lookup", "ngram");
  options.ngram_min = 0;
  auto made = make_ngram_drafter({.options = options});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("\"lookup\": ngram_min = 0"), std::string::npos);
  options.ngram_min = 5;
  options.ngram_max = 4;
  made = make_ngram_drafter({.options = options});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("ngram_max = 4"), std::string::npos);
}

} // namespace
} // namespace paceline::speculation
