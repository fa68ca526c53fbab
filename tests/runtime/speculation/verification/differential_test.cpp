#include "runtime/speculation/drafters/registry.hpp"
#include "tests/support/reference_pipeline.hpp"
#include "tests/support/simulated_decoding.hpp"
#include "tests/support/test_drafters.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

/// Speculative decoding against plain decoding, feature by feature. The hash model's cells reveal every wrong
/// slot; drafters range from always right to always wrong.
namespace paceline::speculation {
namespace {

std::shared_ptr<model::hash_model> make_model(std::uint64_t salt, std::uint32_t vocab = 24) {
  return std::make_shared<model::hash_model>(
      model::hash_model_config{.vocab_size = vocab, .sharpness = 6.0F, .salt = salt});
}

std::unique_ptr<drafter> built_in(const std::string& kind, std::shared_ptr<const model::language_model> own,
                                  std::uint32_t vocab) {
  config::drafter_options options;
  options.name = options.kind = kind;
  options.ngram_min = 1;
  auto made = drafter_registry::with_built_in().make(
      {.options = options, .own_model = std::move(own), .target_vocab_size = vocab});
  EXPECT_TRUE(made);
  return std::move(*made);
}

template <class T, std::size_t N>
T pick(std::mt19937& engine, const T (&values)[N]) {
  return values[engine() % N];
}

generation_request random_request(std::mt19937& engine, std::uint32_t vocab) {
  generation_request request;
  const auto token = [&] { return token_id{static_cast<std::int32_t>(engine() % vocab)}; };
  for (std::size_t i = 0, n = 1 + engine() % 12; i < n; ++i) request.prompt.push_back(token());
  auto& sampling = request.sampling;
  sampling.temperature = pick(engine, {0.0F, 0.0F, 0.7F, 1.0F});
  sampling.top_k = pick(engine, {0, 0, 3, 10});
  sampling.top_p = pick(engine, {1.0F, 1.0F, 0.8F});
  sampling.min_p = pick(engine, {0.0F, 0.0F, 0.05F});
  sampling.repetition_penalty = pick(engine, {1.0F, 1.0F, 1.5F});
  sampling.presence_penalty = pick(engine, {0.0F, 0.0F, 1.1F});
  sampling.frequency_penalty = pick(engine, {0.0F, 0.0F, 0.7F, -0.4F});
  if (engine() % 4 == 0) sampling.logit_bias = {{token_id{3}, 4.0F}};
  sampling.seed = engine();
  sampling.choice_index = engine() % 2;
  request.stop.max_tokens = 1 + engine() % 25;
  request.stop.min_tokens = engine() % 12;
  request.stop.eos_ids = {token()};
  request.stop.stop_ids = {token(), token()};
  request.stop.ignore_eos = engine() % 3 == 0;
  request.speculation.draft_length = 1 + engine() % 8;
  return request;
}

/// All drafters over one target, by name.
std::vector<std::pair<std::string, std::unique_ptr<drafter>>>
all_drafters(std::shared_ptr<const model::hash_model> target) {
  const std::uint32_t vocab = target->info().vocab_size;
  const auto right =
      test::own_sample([target](std::span<const token_id> context) { return target->logits_after(context); });
  std::vector<std::pair<std::string, std::unique_ptr<drafter>>> drafters;
  drafters.emplace_back("none", built_in("none", nullptr, vocab));
  drafters.emplace_back("ngram", built_in("ngram", nullptr, vocab));
  drafters.emplace_back("model, the target itself", built_in("model", target, vocab));
  drafters.emplace_back("model, another", built_in("model", make_model(99, vocab + 9), vocab));
  drafters.emplace_back("always right", test::make_scripted_drafter("right", right));
  drafters.emplace_back("always wrong", test::make_scripted_drafter("wrong", test::contradict(right, vocab)));
  drafters.emplace_back("random", test::make_scripted_drafter("random", test::guess(vocab, 3)));
  drafters.emplace_back("feature", test::make_feature_drafter("feature", target));
  drafters.emplace_back("tree", test::make_tree_drafter("tree", right, 3, vocab));
  drafters.emplace_back("twins", test::make_twin_drafter("twins", right, vocab));
  return drafters;
}

TEST(differential, plain_decoding_agrees_with_the_slow_twin_token_by_token) {
  std::mt19937 engine(11);
  SCOPED_TRACE("seed 11");
  const auto target = make_model(1);
  for (int trial = 0; trial < 200; ++trial) {
    const generation_request request = random_request(engine, 24);
    const auto output = test::decode_plainly(*target, request);
    std::vector<token_id> context = request.prompt;
    for (const token_id token : output) {
      const auto row = test::process(target->logits_after(context), request.sampling, request.stop, context,
                                     request.prompt.size());
      const token_position position{static_cast<std::uint32_t>(context.size())};
      if (!row.near_a_limit) {
        ASSERT_EQ(token, test::sample(row, request.sampling, position)) << "trial " << trial;
      }
      context.push_back(token);
    }
  }
}

TEST(differential, every_drafter_leaves_every_request_its_plain_tokens) {
  std::mt19937 engine(12);
  SCOPED_TRACE("seed 12");
  const auto target = make_model(1);
  const auto drafters = all_drafters(target);
  std::vector<test::simulated_output> totals(drafters.size());
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<generation_request> requests;
    for (std::size_t i = 0, n = 1 + engine() % 5; i < n; ++i) requests.push_back(random_request(engine, 24));
    std::vector<std::vector<token_id>> expected;
    for (const auto& request : requests) expected.push_back(test::decode_plainly(*target, request));
    for (std::size_t d = 0; d < drafters.size(); ++d) {
      const auto outputs = test::decode_speculatively(*target, *drafters[d].second, requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        // The last round may commit beyond the limit, where the engine would stop.
        auto tokens = outputs[i].tokens;
        ASSERT_GE(tokens.size(), expected[i].size());
        tokens.resize(expected[i].size());
        ASSERT_EQ(tokens, expected[i]) << drafters[d].first << ", trial " << trial << ", request " << i;
        totals[d].num_draft_tokens += outputs[i].num_draft_tokens;
        totals[d].num_accepted_tokens += outputs[i].num_accepted_tokens;
        totals[d].num_rounds += outputs[i].num_rounds;
      }
    }
  }
  for (std::size_t d = 0; d < drafters.size(); ++d) {
    SCOPED_TRACE(drafters[d].first);
    const auto& total = totals[d];
    const std::string& name = drafters[d].first;
    if (name == "none") {
      EXPECT_EQ(total.num_draft_tokens, 0U);
      continue;
    }
    EXPECT_GT(total.num_draft_tokens, 100U);
    if (name == "model, the target itself" || name == "always right" || name == "feature") {
      EXPECT_EQ(total.num_accepted_tokens, total.num_draft_tokens)
          << "equal distributions and noise agree on every token";
    }
    if (name == "always wrong") {
      EXPECT_EQ(total.num_accepted_tokens, 0U);
    }
    if (name == "tree" || name == "twins") {
      EXPECT_EQ(3 * total.num_accepted_tokens, total.num_draft_tokens) << "one sibling of three, every level";
    }
  }
}

class any_rule : public testing::TestWithParam<verification_rule> {};

TEST_P(any_rule, tokens_depend_on_seed_drafter_and_length_only) {
  std::mt19937 engine(13);
  SCOPED_TRACE("seed 13");
  const auto target = make_model(1);
  for (const std::string kind : {"model", "ngram"}) {
    const auto other = make_model(99);
    for (int trial = 0; trial < 15; ++trial) {
      std::vector<generation_request> requests;
      for (std::size_t i = 0; i < 4; ++i) {
        requests.push_back(random_request(engine, 24));
        requests.back().speculation.rule = GetParam();
        requests.back().sampling.temperature = 1.0F;
      }
      const auto together = test::decode_speculatively(
          *target, *built_in(kind, kind == "model" ? other : nullptr, 24), requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto alone =
            test::decode_speculatively(*target, *built_in(kind, kind == "model" ? other : nullptr, 24),
                                       std::span(requests).subspan(i, 1), 50 + i);
        ASSERT_EQ(alone[0].tokens, together[i].tokens) << kind << ", trial " << trial << ", request " << i;
        ASSERT_EQ(alone[0].num_accepted_tokens, together[i].num_accepted_tokens);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(differential, any_rule,
                         testing::Values(verification_rule::rejection, verification_rule::block,
                                         verification_rule::lenient, verification_rule::typical,
                                         verification_rule::skip_sample_adjustment),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

TEST(differential, at_temperature_0_tokens_are_plain_under_every_rule_but_lenient) {
  std::mt19937 engine(15);
  SCOPED_TRACE("seed 15");
  const auto target = make_model(1);
  const auto drafters = all_drafters(target);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<generation_request> requests{random_request(engine, 24)};
    requests[0].sampling.temperature = 0;
    const auto expected = test::decode_plainly(*target, requests[0]);
    for (const auto rule : {verification_rule::rejection, verification_rule::block,
                            verification_rule::typical, verification_rule::skip_sample_adjustment})
      for (const auto& [name, one] : drafters) {
        requests[0].speculation.rule = rule;
        auto tokens = test::decode_speculatively(*target, *one, requests)[0].tokens;
        tokens.resize(expected.size());
        ASSERT_EQ(tokens, expected) << name << " under " << name_of(rule) << ", trial " << trial;
      }
  }
}

TEST(differential, under_rejection_and_block_a_drafter_of_the_targets_distribution_is_always_accepted) {
  std::mt19937 engine(14);
  SCOPED_TRACE("seed 14");
  const auto target = make_model(1);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<generation_request> requests{random_request(engine, 24)};
    requests[0].speculation.rule = trial % 2 == 0 ? verification_rule::rejection : verification_rule::block;
    const auto output = test::decode_speculatively(*target, *built_in("model", target, 24), requests);
    EXPECT_EQ(output[0].num_accepted_tokens, output[0].num_draft_tokens)
        << "penalties and truncation must be the same on both sides, trial " << trial;
  }
}

} // namespace
} // namespace paceline::speculation
