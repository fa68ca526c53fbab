#include "runtime/speculation/drafters/model_session.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "tests/runtime/speculation/drafters/drafted_request.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace paceline::speculation::cascade_drafter_test {
namespace {

using test_support::counted_model;
using test_support::drafted_request;

constexpr std::uint32_t vocab = 30;

/// Kinds that a cascade may have inside it.
constexpr std::array inner_kinds{"ngram",  "suffix", "prediction", "unigram",
                                 "bigram", "copy",   "random",     "synthetic"};

std::unique_ptr<drafter> make(const std::string& kind, std::shared_ptr<const model::language_model> model,
                              const std::string& inner = "ngram") {
  drafter_parts parts{.options = test::options_of(kind, kind), .own_model = std::move(model)};
  parts.options.inner = inner;
  parts.options.ngram_min = 1;
  parts.options.ngram_max = 3;
  parts.target_vocab_size = vocab;
  return drafter_registry::with_built_in().make(parts).value();
}

std::size_t num_passes_of(const counted_model& model) { return model.rows_of_passes.size(); }

/// Guesses never change what the model drafts, whether they are right or wrong.
TEST(cascade_drafter, drafts_token_for_token_what_its_model_drafts) {
  for (const char* inner : inner_kinds)
    for (const std::uint32_t memory : {0U, 1U, 2U}) // 1: a text that repeats itself, as guesses assume
      for (const float temperature : {0.0F, 0.8F})
        for (const auto rule : {verification_rule::coupled, verification_rule::rejection}) {
          SCOPED_TRACE(::testing::Message() << "seed 31 memory " << memory << " temperature " << temperature
                                            << " rule " << static_cast<int>(rule) << " inner " << inner);
          const model::hash_model_config config{.vocab_size = vocab, .memory = memory};
          auto alone = std::make_shared<counted_model>(config);
          auto helped = std::make_shared<counted_model>(config);
          const auto plain = make("model", alone);
          const auto cascade = make("cascade", helped, inner);
          drafted_request left(*plain, {.temperature = temperature, .repetition_penalty = 1.1F, .seed = 4},
                               20, vocab);
          drafted_request right(*cascade, {.temperature = temperature, .repetition_penalty = 1.1F, .seed = 4},
                                20, vocab);
          left.rule = right.rule = rule;
          right.prediction.assign(20, token_id{5});
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

TEST(guess_length, looks_keep_their_distance_where_they_miss) {
  guess_length length;
  for (int i = 0; i < 4; ++i) length.on_verified(4, 0);
  std::uint32_t num_looks = 0;
  for (int i = 0; i < 64; ++i)
    if (const auto num = length.next(); num > 0) {
      ++num_looks;
      length.on_verified(num, 0);
    }
  EXPECT_EQ(num_looks, 8U);
}

/// The end of a draft shortens guesses, and so does an inner drafter that has no more tokens.
TEST(guess_length, does_not_shrink_where_few_guesses_were_made_and_all_were_right) {
  guess_length length;
  length.on_verified(4, 4);
  length.on_verified(6, 6);
  EXPECT_EQ(length.next(), 8U);
  length.on_verified(1, 1);
  EXPECT_EQ(length.next(), 8U);
  length.on_verified(2, 1);
  EXPECT_EQ(length.next(), 2U);
}

/// The number of passes of `model` until `one` has 100 more tokens. All drafts are committed, with one token
/// after each.
std::size_t passes_for_100_tokens(drafted_request& one, const counted_model& model,
                                  const model::hash_model& oracle) {
  model.rows_of_passes.clear();
  one.draft_length = 8;
  const std::size_t end = one.tokens.size() + 100;
  while (one.tokens.size() < end) {
    const draft made = one.propose();
    one.commit(made.tree.tokens());
    const auto logits = one.logits_below(oracle, {});
    one.commit(
        std::vector{token_id{static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin())}});
  }
  return num_passes_of(model);
}

TEST(cascade_drafter, every_inner_kind_that_finds_the_text_saves_passes) {
  const model::hash_model_config config{.vocab_size = vocab, .memory = 1}; // it goes in a cycle
  const model::hash_model oracle(config);
  auto alone = std::make_shared<counted_model>(config);
  const auto plain = make("model", alone);
  drafted_request unaided(*plain, {.temperature = 0}, 20, vocab);
  const auto passes = passes_for_100_tokens(unaided, *alone, oracle);
  for (const std::string inner : {"ngram", "suffix", "bigram", "prediction", "synthetic"}) {
    auto helped = std::make_shared<counted_model>(config);
    const auto cascade = make("cascade", helped, inner);
    drafted_request aided(*cascade, {.temperature = 0}, 20, vocab);
    aided.prediction.assign(unaided.tokens.begin() + 20, unaided.tokens.end());
    EXPECT_LT(2 * passes_for_100_tokens(aided, *helped, oracle), passes) << inner;
    EXPECT_EQ(aided.tokens, unaided.tokens) << inner;
  }
}

/// The inner drafter does not learn draft tokens before its guesses, because these may not be committed.
TEST(cascade_drafter, its_inner_drafter_learns_committed_tokens_only) {
  const model::hash_model_config config{.vocab_size = vocab, .memory = 1};
  for (const char* inner : inner_kinds) {
    SCOPED_TRACE(inner);
    auto left_model = std::make_shared<counted_model>(config),
         right_model = std::make_shared<counted_model>(config);
    const auto left_drafter = make("cascade", left_model, inner),
               right_drafter = make("cascade", right_model, inner);
    drafted_request left(*left_drafter, {.temperature = 0}, 20, vocab),
        right(*right_drafter, {.temperature = 0}, 20, vocab);
    left.draft_length = right.draft_length = 6;
    std::mt19937_64 random(3);
    for (int round = 0; round < 20; ++round) {
      // It is asked about text that is not committed later, as in advance of a verdict.
      left.propose_in_advance(std::vector{token_id{8}, token_id{9}, token_id{round}});
      right.propose_in_advance(std::vector{token_id{7}, token_id{7}, token_id{29 - round}});
      right_model->rows_of_passes.clear();
      left_model->rows_of_passes.clear();
      const draft made = left.propose();
      right.propose();
      ASSERT_EQ(left_model->rows_of_passes, right_model->rows_of_passes) << "the same guesses";
      auto again = random;
      left.commit_some(made, random, vocab);
      right.commit_some(made, again, vocab);
    }
  }
}

TEST(cascade_drafter, tells_its_inner_drafter_what_requests_came_to) {
  const model::hash_model_config config{.vocab_size = vocab}; // no repetitions within a text
  const model::hash_model oracle(config);
  auto helped = std::make_shared<counted_model>(config);
  const auto cascade = make("cascade", helped, "suffix");
  std::size_t passes[2];
  for (auto& one : passes) {
    drafted_request request(*cascade, {.temperature = 0}, 20, vocab);
    one = passes_for_100_tokens(request, *helped, oracle);
    request.end();
  }
  EXPECT_LT(2 * passes[1], passes[0]) << "the tenant's last reply was the same";
}

TEST(cascade_drafter, refuses_inner_kinds_that_need_more_than_tokens) {
  const auto refusal = [](const std::string& inner) {
    drafter_parts parts{.options = test::options_of("c", "cascade")};
    parts.own_model = std::make_shared<counted_model>(model::hash_model_config{.vocab_size = vocab});
    parts.target =
        std::make_shared<model::hash_model>(model::hash_model_config{.vocab_size = vocab, .num_layers = 4});
    parts.target_vocab_size = vocab;
    parts.options.inner = inner;
    auto made = drafter_registry::with_built_in().make(parts);
    return made ? std::string() : made.error().message();
  };
  for (const std::string inner : {"none", "nasd", "lookahead", "model", "self", "cascade"})
    EXPECT_NE(refusal(inner).find("inner = \"" + inner + "\", must be"), std::string::npos) << refusal(inner);
  EXPECT_NE(refusal("unheard-of").find("is not one of"), std::string::npos);
  for (const char* inner : inner_kinds) EXPECT_EQ(refusal(inner), "") << inner;
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
} // namespace paceline::speculation::cascade_drafter_test
