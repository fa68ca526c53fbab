// Drafters with a model, with real models and the whole engine: parts of the target, trees, other
// vocabularies.
#include "engine/probe.hpp"
#include "engine/served_model.hpp"
#include "tests/e2e/real_model.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace paceline::test::real_drafters_test {
namespace {

using testing::generation;

constexpr std::uint32_t max_tokens = 24;

config::drafter_options drafter(std::string name, std::string kind, const std::filesystem::path& path = {}) {
  config::drafter_options options;
  options.name = std::move(name);
  options.kind = std::move(kind);
  options.path = path;
  options.max_tree_nodes = 10;
  options.tree_top_k = 3;
  options.ngram_min = 1;
  return options;
}

struct totals {
  std::uint32_t drafted = 0, accepted = 0, rounds = 0;
};

/// Runs `requests` together with `drafter` and compares their tokens.
totals run(engine& runtime, const std::string& drafter, std::vector<generation_request> requests,
           const token_table& plain) {
  std::vector<generation> all(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation.drafter = drafter;
    requests[i].speculation.draft_length = 4;
    runtime.submit(requests[i], all[i].sink());
  }
  totals out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    all[i].wait();
    EXPECT_EQ(all[i].tokens(), plain.at(requests[i].sampling.seed)) << drafter << ": request " << i;
    EXPECT_EQ(all[i].last().finish, finish_reason::length) << drafter;
    const auto figures = all[i].last().speculation.value_or(speculation_stats{});
    out.drafted += figures.num_draft_tokens;
    out.accepted += figures.num_accepted_tokens;
    out.rounds += figures.num_rounds;
  }
  std::printf("%-12s accepted %4u of %4u draft tokens in %3u rounds\n", drafter.c_str(), out.accepted,
              out.drafted, out.rounds);
  return out;
}

TEST(real_drafters, parts_of_the_target_and_trees_change_no_token) {
  if (!smollm2_file()) GTEST_SKIP() << "no smollm2.gguf in PACELINE_MODEL_DIR";
  auto options = real_engine_options(config::overlap_mode::off);
  auto& model = options.models[0];
  model.drafters = {drafter("layers", "model", drafter_file("12-layers")),
                    drafter("self", "self"),
                    drafter("self tree", "self"),
                    drafter("tree", "model", drafter_file("q2_k")),
                    drafter("cascade", "cascade", drafter_file("q2_k")),
                    drafter("q2_k", "model", drafter_file("q2_k"))};
  model.drafters[1].layers = model.drafters[2].layers = 12;
  model.drafters[2].tree = config::tree_kind::dynamic;
  model.drafters[3].tree = config::tree_kind::optimal;
  std::vector<generation_request> requests;
  for (std::uint32_t n = 0; n < 6; ++n)
    requests.push_back(real_request(n, static_cast<float>(n % 2), max_tokens));
  const auto plain = decode_plainly(smollm2_file().value(), requests);
  auto started = engine_probe::start(options, speculation::drafter_registry::with_built_in());
  ASSERT_TRUE(started) << started.error().message();
  const totals layers = run(**started, "layers", requests, plain);
  const totals self = run(**started, "self", requests, plain);
  EXPECT_EQ(self.drafted, layers.drafted) << "the same layers, once from a file of their own";
  EXPECT_EQ(self.accepted, layers.accepted);
  EXPECT_EQ(self.rounds, layers.rounds);
  const totals q2_k = run(**started, "q2_k", requests, plain);
  const totals cascade = run(**started, "cascade", requests, plain);
  EXPECT_EQ(cascade.accepted, q2_k.accepted) << "the same drafts, sooner";
  EXPECT_EQ(cascade.rounds, q2_k.rounds);
  EXPECT_LE(run(**started, "self tree", requests, plain).rounds, self.rounds);
  EXPECT_LE(run(**started, "tree", requests, plain).rounds, q2_k.rounds);
}

TEST(real_drafters, a_model_of_another_vocabulary_drafts_for_gemma) {
  const auto small = smollm2_file();
  const auto gemma = small ? small->parent_path() / "gemma3.gguf" : std::filesystem::path();
  if (!small || !std::filesystem::exists(gemma))
    GTEST_SKIP() << "no smollm2.gguf or gemma3.gguf in PACELINE_MODEL_DIR";
  auto options = real_engine_options(config::overlap_mode::off);
  auto& model = options.models[0];
  model.name = "gemma";
  model.path = gemma;
  model.drafters = {drafter("shared", "model", *small), drafter("shared tree", "model", *small),
                    drafter("text", "model", *small)};
  model.drafters[0].vocabulary = model.drafters[1].vocabulary = config::draft_vocabulary::intersection;
  model.drafters[1].tree = config::tree_kind::dynamic;
  model.drafters[2].vocabulary = config::draft_vocabulary::retokenise;
  auto started = engine_probe::start(options, speculation::drafter_registry::with_built_in());
  ASSERT_TRUE(started) << started.error().message();
  const auto& vocabulary = (*started)->model("gemma")->vocabulary();
  std::vector<generation_request> requests;
  for (const std::string text :
       {"The quick brown fox jumps over the lazy dog. The quick brown fox jumps over",
        "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is",
        "1, 2, 3, 4, 5, 6, 7,", "Caf\xc3\xa9, na\xc3\xafve, \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e: "}) {
    for (const float temperature : {0.0F, 1.0F}) {
      auto request = real_request(0, temperature, max_tokens);
      request.prompt = vocabulary.encode(text).value();
      request.sampling.seed = 500 + requests.size();
      requests.push_back(std::move(request));
    }
  }
  const auto plain = decode_plainly(gemma, requests);
  for (const auto* name : {"shared", "shared tree", "text"}) {
    const totals got = run(**started, name, requests, plain);
    EXPECT_GT(got.accepted, 0U) << name;
    EXPECT_LT(got.accepted, got.drafted) << name;
  }
}

} // namespace
} // namespace paceline::test::real_drafters_test
