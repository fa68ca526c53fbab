#include "runtime/speculation/drafters/model_session.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace paceline::speculation {
namespace {

using test_support::counted_model;
using test_support::drafted_request;

constexpr std::uint32_t vocab = 30;

std::unique_ptr<drafter> make(const std::string& kind, std::shared_ptr<const model::language_model> model) {
  drafter_parts parts{.options = test::options_of(kind, kind), .own_model = std::move(model)};
  parts.options.ngram_min = 1;
  parts.options.ngram_max = 3;
  parts.target_vocab_size = vocab;
  return drafter_registry::with_built_in().make(parts).value();
}

std::size_t num_passes_of(const counted_model& model) { return model.rows_of_passes.size(); }

/// The n-gram drafter's guesses, right or wrong, never change what the model drafts.
TEST(cascade_drafter, drafts_token_for_token_what_its_model_drafts) {
  for (const std::uint32_t memory : {0U, 1U, 2U}) // 1: a text that repeats itself, as guesses assume
    for (const float temperature : {0.0F, 0.8F})
      for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
        SCOPED_TRACE(::testing::Message() << "seed 31 memory " << memory << " temperature " << temperature
                                          << " rule " << static_cast<int>(rule));
        const model::hash_model_config config{.vocab_size = vocab, .memory = memory};
        auto alone = std::make_shared<counted_model>(config);
        auto helped = std::make_shared<counted_model>(config);
        const auto plain = make("model", alone);
        const auto cascade = make("cascade", helped);
        drafted_request left(*plain, {.temperature = temperature, .repetition_penalty = 1.1F, .seed = 4}, 20,
                             vocab);
        drafted_request right(*cascade, {.temperature = temperature, .repetition_penalty = 1.1F, .seed = 4},
                              20, vocab);
        left.rule = right.rule = rule;
        std::mt19937_64 random(31);
        for (int round = 0; round < 40; ++round) {
          SCOPED_TRACE(round);
          left.draft_length = right.draft_length = 1 + static_cast<std::uint32_t>(random() % 8);
          const draft one = left.propose();
          const draft other = right.propose();
          ASSERT_EQ(std::vector(one.tree.tokens().begin(), one.tree.tokens().end()),
                    std::vector(other.tree.tokens().begin(), other.tree.tokens().end()));
          ASSERT_EQ(one.probs.size(), other.probs.size());
          for (std::size_t i = 0; i < one.probs.size(); ++i)
            ASSERT_EQ(one.probs[i].probs, other.probs[i].probs);
          auto again = random; // both commit the same
          left.commit_some(one, random, vocab);
          right.commit_some(other, again, vocab);
        }
        EXPECT_LE(num_passes_of(*helped), num_passes_of(*alone));
      }
}

TEST(cascade_drafter, right_guesses_save_passes) {
  const model::hash_model_config config{.vocab_size = vocab, .memory = 1};
  auto alone = std::make_shared<counted_model>(config);
  auto helped = std::make_shared<counted_model>(config);
  const model::hash_model target(config);
  generation_request request;
  request.prompt = {token_id{1}, token_id{2}};
  request.sampling.temperature = 0;
  request.stop.max_tokens = 200;
  const auto plain = test::decode_speculatively(target, *make("model", alone), {&request, 1});
  const auto cascade = test::decode_speculatively(target, *make("cascade", helped), {&request, 1});
  EXPECT_EQ(plain[0].tokens, cascade[0].tokens);
  EXPECT_EQ(plain[0].tokens, test::decode_plainly(target, request));
  EXPECT_EQ(plain[0].num_rounds, cascade[0].num_rounds);
  EXPECT_LT(num_passes_of(*helped) * 2, num_passes_of(*alone)) << "a cycle of tokens is guessed at once";
}

/// Number of rows spent on guesses where the text does not repeat.
TEST(cascade_drafter, wrong_guesses_get_few) {
  const model::hash_model_config config{.vocab_size = vocab}; // every token depends on all before it
  auto alone = std::make_shared<counted_model>(config);
  auto helped = std::make_shared<counted_model>(config);
  const auto plain = make("model", alone);
  const auto cascade = make("cascade", helped);
  drafted_request left(*plain, {.temperature = 0}, 20, vocab), right(*cascade, {.temperature = 0}, 20, vocab);
  left.draft_length = right.draft_length = 8;
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    const draft one = left.propose();
    right.propose();
    auto again = random;
    left.commit_some(one, random, vocab);
    right.commit_some(one, again, vocab);
  }
  const auto num_rows = [](const counted_model& of) {
    return std::accumulate(of.rows_of_passes.begin(), of.rows_of_passes.end(), 0.0);
  };
  EXPECT_LT(num_rows(*helped), 1.25 * num_rows(*alone));
}

TEST(guess_length, grows_with_right_guesses_and_stops_behind_wrong_ones) {
  guess_length length;
  EXPECT_EQ(length.next(), 4U);
  length.on_verified(4, 4);
  EXPECT_EQ(length.next(), 6U);
  length.on_verified(6, 2);
  EXPECT_EQ(length.next(), 3U);
  for (std::uint32_t i = 0; i < 4; ++i) length.on_verified(3, 0);
  std::uint32_t num_looks = 0;
  for (int i = 0; i < 64; ++i) num_looks += length.next();
  EXPECT_EQ(num_looks, 8U);
  length.on_verified(1, 1);
  EXPECT_EQ(length.next(), 3U);
}

TEST(cascade_drafter, proposes_chains_over_the_targets_vocabulary_only) {
  auto own = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
  drafter_parts parts{
      .options = test::options_of("c", "cascade"), .own_model = own, .target_vocab_size = vocab};
  parts.options.tree = config::tree_kind::dynamic;
  EXPECT_NE(drafter_registry::with_built_in().make(parts).error().message().find("chains"),
            std::string::npos);
  parts.options.tree = config::tree_kind::chain;
  parts.options.ngram_max = 1;
  EXPECT_NE(drafter_registry::with_built_in().make(parts).error().message().find("ngram"), std::string::npos);
  parts.options.ngram_max = 4;
  parts.own_model = nullptr;
  EXPECT_NE(drafter_registry::with_built_in().make(parts).error().message().find("path"), std::string::npos);
}

} // namespace
} // namespace paceline::speculation
