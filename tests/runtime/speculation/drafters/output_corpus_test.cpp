#include "runtime/speculation/drafters/output_corpus.hpp"

#include "tests/support/draft_tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace paceline::speculation {
namespace {

using test::ids;
using test::tokens_of;

ngram_index empty_index() { return ngram_index(std::vector<std::uint32_t>{1, 2}); }

/// Continuations of `query` in a tenant's earlier outputs.
ids continuations(output_corpus& all, const std::string& tenant, const ids& query) {
  ids found;
  auto* const corpus = all.find(tenant);
  if (corpus == nullptr) return found;
  corpus->index(100000);
  const auto tokens = tokens_of(query);
  for (const auto& half : corpus->halves()) {
    std::vector<occurrence> places;
    half.index.find(half.text, tokens, 100, 2, places);
    for (const auto& place : places) found.push_back(half.text[place.next].value);
  }
  return found;
}

TEST(output_corpus, finds_the_tenants_own_outputs_and_no_others) {
  output_corpus all(1000, 10, empty_index());
  all.remember("a", tokens_of({1, 2, 3}));
  all.remember("b", tokens_of({1, 2, 4}));
  EXPECT_EQ(all.find("a"), nullptr) << "not taken over yet";
  all.collect();
  EXPECT_EQ(continuations(all, "a", {1, 2}), (ids{3}));
  EXPECT_EQ(continuations(all, "b", {1, 2}), (ids{4}));
  EXPECT_EQ(continuations(all, "c", {1, 2}), ids{});
  EXPECT_EQ(continuations(all, "", {1, 2}), ids{});
}

TEST(output_corpus, one_output_does_not_continue_another) {
  output_corpus all(1000, 10, empty_index());
  all.remember("a", tokens_of({1, 2}));
  all.remember("a", tokens_of({3, 4}));
  all.collect();
  EXPECT_EQ(continuations(all, "a", {2}), (ids{-1})) << "the end of the output";
}

TEST(output_corpus, forgets_the_oldest_outputs_and_never_keeps_more_than_asked) {
  output_corpus all(100, 10, empty_index());
  for (int output = 0; output < 1000; ++output) {
    all.remember("a", tokens_of({output, 5000, output}));
    all.collect();
    ASSERT_LE(all.find("a")->num_tokens(), 100U);
    ASSERT_EQ(continuations(all, "a", {output}), (ids{-1, 5000})) << output;
    ASSERT_EQ(continuations(all, "a", {std::max(0, output - 9)}), (ids{-1, 5000})) << "half is always kept";
  }
  EXPECT_EQ(continuations(all, "a", {3}), ids{});
  all.remember("a", std::vector<token_id>(500, token_id{7}));
  all.collect();
  EXPECT_LE(all.find("a")->num_tokens(), 100U) << "of a long output its end";
}

TEST(output_corpus, forgets_the_tenant_that_asked_least_recently) {
  output_corpus all(100, 2, empty_index());
  all.remember("a", tokens_of({1, 2}));
  all.remember("b", tokens_of({1, 2}));
  all.collect();
  EXPECT_NE(all.find("a"), nullptr);
  all.remember("c", tokens_of({1, 2}));
  all.collect();
  EXPECT_EQ(all.num_tenants(), 2U);
  EXPECT_NE(all.find("a"), nullptr);
  EXPECT_EQ(all.find("b"), nullptr);
  EXPECT_NE(all.find("c"), nullptr);
}

TEST(output_corpus, keeps_nothing_where_nothing_may_be_kept) {
  output_corpus none(0, 10, empty_index());
  none.remember("a", tokens_of({1, 2, 3}));
  none.collect();
  EXPECT_EQ(none.num_tenants(), 0U);
  output_corpus all(100, 10, empty_index());
  all.remember("a", tokens_of({1}));
  all.collect();
  EXPECT_EQ(all.num_tenants(), 0U) << "nothing follows a single token";
}

TEST(output_corpus, what_waits_to_be_taken_over_is_bounded) {
  output_corpus all(1U << 30U, 10, empty_index());
  for (int i = 0; i < 20; ++i) all.remember("a", std::vector<token_id>(100000, token_id{i}));
  all.collect();
  EXPECT_LE(all.find("a")->num_tokens(), (1U << 20U) + 100U);
}

TEST(output_corpus, sessions_may_end_on_any_thread) {
  output_corpus all(10000, 10, empty_index());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&all, t] {
      for (int i = 0; i < 100; ++i) all.remember(std::to_string(t), tokens_of({i, t}));
    });
  for (int i = 0; i < 50; ++i) all.collect();
  for (auto& thread : threads) thread.join();
  all.collect();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(all.find(std::to_string(t))->num_tokens(), 300U);
}

} // namespace
} // namespace paceline::speculation
