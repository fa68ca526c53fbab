#include "tests/support/draft_tasks.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace paceline::speculation {
namespace {

using namespace test;

ids chain_after(const ids& text, const std::string& kind, std::uint32_t length) {
  const auto drafter = built_in(options_of("x", kind));
  return drafted_request(*drafter).chain(text, length);
}

/// Share of tokens at each level of many drafts with different seeds.
std::map<std::int32_t, double> shares(drafter& from, const ids& text, verification_rule rule) {
  constexpr int num_trials = 4000;
  std::map<std::int32_t, double> result;
  for (int trial = 0; trial < num_trials; ++trial) {
    drafted_request request(from);
    request.temperature = 1;
    request.seed = static_cast<std::uint64_t>(trial);
    request.rule = rule;
    result[request.chain(text, 1).at(0)] += 1.0 / num_trials;
  }
  return result;
}

TEST(unigram_drafter, proposes_the_most_frequent_token_whatever_came_before) {
  EXPECT_EQ(chain_after({1, 2, 3, 2, 5}, "unigram", 3), (ids{2, 2, 2}));
  EXPECT_EQ(chain_after({4, 3}, "unigram", 1), (ids{3})) << "of equals the lowest";
}

TEST(unigram_drafter, draws_in_proportion_to_the_counts_and_says_so) {
  const auto drafter = built_in(options_of("x", "unigram"));
  for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
    const auto found = shares(*drafter, {1, 1, 1, 2}, rule);
    EXPECT_NEAR(found.at(1), 0.75, 0.03);
    EXPECT_NEAR(found.at(2), 0.25, 0.03);
  }
  drafted_request request(*drafter);
  request.temperature = 1;
  request.rule = verification_rule::rejection;
  const auto draft = request.propose({1, 1, 1, 2}, 2);
  ASSERT_EQ(draft.probs.size(), 2U);
  EXPECT_EQ(values_of(draft.probs[0].tokens), (ids{1, 2}));
  EXPECT_FLOAT_EQ(draft.probs[0].probs[0], 0.75F);
  EXPECT_TRUE(validate_draft(draft, 10, 2));
  request.temperature = 0;
  EXPECT_TRUE(request.propose({1, 1, 1, 2}, 2).probs.empty()) << "a greedy choice is certain";
}

TEST(unigram_drafter, keeps_the_frequent_ones_of_many_tokens) {
  ids text;
  for (int i = 0; i < 3000; ++i) {
    text.push_back(i % 900);
    if (i % 3 == 0) text.push_back(950);
  }
  EXPECT_EQ(chain_after(text, "unigram", 1), (ids{950}));
  const auto drafter = built_in(options_of("x", "unigram"));
  drafted_request request(*drafter);
  request.temperature = 1;
  request.rule = verification_rule::rejection;
  EXPECT_TRUE(validate_draft(request.propose(text, 3), 1000, 3)) << "64 entries at most";
}

TEST(bigram_drafter, proposes_what_followed_most_often) {
  EXPECT_EQ(chain_after({1, 2, 9, 1, 3, 9, 1, 3, 4, 1}, "bigram", 3), (ids{3, 4, 1}));
  EXPECT_EQ(chain_after({1, 2, 3}, "bigram", 3), ids{}) << "nothing followed 3";
  EXPECT_EQ(chain_after({1, 2, 1}, "bigram", 4), (ids{2, 1, 2, 1}));
}

TEST(bigram_drafter, draws_in_proportion_to_the_counts) {
  const auto drafter = built_in(options_of("x", "bigram"));
  for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
    const auto found = shares(*drafter, {1, 2, 1, 2, 1, 2, 1, 3, 1}, rule);
    EXPECT_NEAR(found.at(2), 0.75, 0.03);
    EXPECT_NEAR(found.at(3), 0.25, 0.03);
  }
}

class corpus_file : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_ / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static expected<std::unique_ptr<drafter>> make(const std::string& kind, const std::string& path) {
    auto options = options_of("x", kind);
    options.corpus = path;
    return drafter_registry::with_built_in().make(
        {.options = options,
         .target_vocab_size = 100,
         .encode = [](std::string_view text) -> expected<std::vector<token_id>> {
           std::vector<token_id> tokens;
           for (const char c : text) tokens.push_back(token_id{c - 'a'});
           return tokens;
         }});
  }

  test::scratch_folder folder_;
};

TEST_F(corpus_file, counts_come_from_token_ids_or_text) {
  for (const auto& path : {write("corpus.ids", "0 1 0 1\n0 2"), write("corpus.txt", "ababac")}) {
    auto bigram = make("bigram", path);
    ASSERT_TRUE(bigram);
    EXPECT_EQ(drafted_request(**bigram).chain({50, 0}, 2), (ids{1, 0})) << path;
    auto unigram = make("unigram", path);
    ASSERT_TRUE(unigram);
    EXPECT_EQ(drafted_request(**unigram).chain({50, 1}, 2), (ids{0, 0})) << path;
  }
}

TEST_F(corpus_file, what_a_request_learns_stays_with_it) {
  auto bigram = make("bigram", write("c.ids", "0 1"));
  ASSERT_TRUE(bigram);
  EXPECT_EQ(drafted_request(**bigram).chain({7, 8, 7}, 1), (ids{8}));
  EXPECT_EQ(drafted_request(**bigram).chain({7}, 1), ids{});
}

/// Nothing follows 2. The choice of "auto" uses only the plan of a drawn draft.
TEST_F(corpus_file, where_a_drawn_chain_ends_does_not_show_in_its_plan) {
  const auto bigram = make("bigram", write("c.ids", "0 1 0 2")).value();
  std::set<std::uint32_t> lengths;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    drafted_request request(*bigram);
    request.temperature = 1;
    request.rule = verification_rule::rejection;
    request.seed = seed;
    const auto made = request.propose({0}, 3);
    lengths.insert(made.tree.size());
    EXPECT_EQ(made.plan.levels, 3U);
    EXPECT_EQ(made.plan.nodes, 3U);
  }
  EXPECT_EQ(lengths, (std::set<std::uint32_t>{1, 3}));
}

TEST_F(corpus_file, a_bad_one_is_refused_by_name) {
  for (const auto& [text, rule] : std::map<std::string, std::string>{{"1 2 100", "number 3"},
                                                                     {"1 -2", "number 2"},
                                                                     {"1 x", "number 2"},
                                                                     {"99999999999", "number 1"},
                                                                     {"1,2", "number 1"}}) {
    const auto made = make("unigram", write("bad.ids", text));
    ASSERT_FALSE(made) << text;
    EXPECT_NE(made.error().message().find(rule), std::string::npos) << made.error().message();
    EXPECT_NE(made.error().message().find("bad.ids"), std::string::npos);
  }
  EXPECT_FALSE(make("bigram", "/nowhere/at/all.ids"));
  EXPECT_TRUE(make("bigram", write("empty.ids", "")));
}

TEST(copy_drafter, reads_on_in_the_prompt_behind_where_it_stands) {
  const auto drafter = built_in(options_of("x", "copy"));
  drafted_request request(*drafter);
  request.prompt_length = 6;
  EXPECT_EQ(request.chain({1, 2, 3, 4, 5, 6}, 3), ids{}) << "nothing was written that says where";
  EXPECT_EQ(request.chain({1, 2, 3, 4, 5, 6, 3}, 3), (ids{4, 5, 6}));
  EXPECT_EQ(request.chain({1, 2, 3, 4, 5, 6, 3, 4, 9}, 3), ids{});
  EXPECT_EQ(request.chain({1, 2, 3, 4, 5, 6, 3, 4, 9, 2}, 3), (ids{3, 4, 5}));
}

TEST(copy_drafter, never_copies_from_the_output) {
  const auto drafter = built_in(options_of("x", "copy"));
  drafted_request request(*drafter);
  request.prompt_length = 2;
  EXPECT_EQ(request.chain({1, 2, 7, 8, 7}, 3), ids{});
}

/// The request's own noise draws among the drafter's candidates, so the drafter must choose them with other
/// noise.
TEST(random_drafter, chooses_by_other_noise_than_a_request_with_its_seed) {
  auto options = options_of("x", "random");
  options.seed = 5;
  const auto drafter = built_in(options, 1000);
  int num_same = 0;
  for (std::uint32_t length = 1; length < 50; ++length) {
    const auto chosen = drafted_request(*drafter).chain(ids(length, 1), 1).at(0);
    const noise_stream own{
        .seed = options.seed + 1, .position = token_position{length}, .purpose = noise_purpose::draft};
    num_same += static_cast<std::uint32_t>(chosen) == own.words(1)[0] % 1000 ? 1 : 0;
  }
  EXPECT_LT(num_same, 3);
}

TEST(random_drafter, is_seeded_and_covers_the_vocabulary) {
  auto options = options_of("x", "random");
  options.seed = 5;
  const auto drafter = built_in(options, 10);
  const auto again = built_in(options, 10);
  options.seed = 6;
  const auto other = built_in(options, 10);
  std::set<std::int32_t> seen;
  int num_same = 0;
  for (int length = 1; length < 200; ++length) {
    const ids text(static_cast<std::size_t>(length), 1);
    const auto chain = drafted_request(*drafter).chain(text, 3);
    ASSERT_EQ(chain.size(), 3U);
    EXPECT_EQ(chain, drafted_request(*again).chain(text, 3));
    num_same += chain == drafted_request(*other).chain(text, 3) ? 1 : 0;
    seen.insert(chain.begin(), chain.end());
  }
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_EQ(*seen.rbegin(), 9);
  EXPECT_LT(num_same, 5);
}

TEST(random_drafter, sends_the_distribution_it_drew_from) {
  for (const std::uint32_t vocab : {1U, 10U, 64U, 65U, 1000U}) {
    const auto drafter = built_in(options_of("x", "random"), vocab);
    drafted_request request(*drafter);
    request.temperature = 1;
    request.rule = verification_rule::rejection;
    const auto draft = request.propose({0, 0}, 3);
    ASSERT_EQ(draft.probs.size(), 3U);
    EXPECT_EQ(draft.probs[0].tokens.size(), std::min(vocab, 64U));
    EXPECT_TRUE(validate_draft(draft, vocab, 3)) << vocab;
  }
}

TEST(synthetic_drafter, is_right_as_often_as_asked) {
  std::vector<token_id> output;
  for (int i = 0; i < 4000; ++i) output.push_back(token_id{i % 90});
  for (const float wanted : {0.0F, 0.3F, 0.8F, 1.0F}) {
    auto options = options_of("x", "synthetic");
    options.acceptance = wanted;
    const auto drafter = built_in(options, 100);
    drafted_request request(*drafter);
    request.prompt_length = 2;
    request.prediction = output;
    int num_right = 0;
    for (int at = 0; at < 4000; at += 8) {
      ids text{98, 99};
      for (int i = 0; i < at; ++i) text.push_back(output[static_cast<std::size_t>(i)].value);
      const auto chain = request.chain(text, 8);
      ASSERT_EQ(chain.size(), 8U);
      for (int i = 0; i < 8; ++i) num_right += chain[static_cast<std::size_t>(i)] == (at + i) % 90 ? 1 : 0;
    }
    EXPECT_NEAR(num_right / 4000.0, static_cast<double>(wanted), 0.03);
  }
}

TEST(synthetic_drafter, ends_with_the_prediction) {
  auto options = options_of("x", "synthetic");
  options.acceptance = 1;
  const auto drafter = built_in(options, 100);
  drafted_request request(*drafter);
  request.prompt_length = 1;
  EXPECT_EQ(request.chain({9}, 4), ids{}) << "nothing to be right about";
  request.prediction = tokens_of({1, 2, 3});
  EXPECT_EQ(request.chain({9}, 4), (ids{1, 2, 3}));
  EXPECT_EQ(request.chain({9, 1, 2}, 4), (ids{3}));
  EXPECT_EQ(request.chain({9, 1, 2, 3, 4}, 4), ids{});
}

} // namespace
} // namespace paceline::speculation
