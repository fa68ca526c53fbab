// Every drafter without a model, on every available real model, in the whole engine: no token changes.
#include "engine/probe.hpp"
#include "engine/served_model.hpp"
#include "tests/e2e/real_model.hpp"
#include "tests/engine/generation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace paceline::test::real_grid_test {
namespace {

using testing::generation;

constexpr std::uint32_t max_tokens = 32;

/// Texts with and without repetitions, code, other scripts.
constexpr std::array texts{
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n",
    "Once upon a time, there was a",
    "Caf\xc3\xa9, na\xc3\xafve, \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e: Caf\xc3\xa9, na\xc3\xafve,",
};

std::vector<config::drafter_options> drafters() {
  std::vector<config::drafter_options> all;
  const auto add = [&](const std::string& name, const std::string& kind) -> auto& {
    auto& one = all.emplace_back();
    one.name = name;
    one.kind = kind;
    one.ngram_min = kind == "nasd" ? 2 : 1;
    one.max_tree_nodes = 12;
    one.tree_top_k = 3;
    return one;
  };
  for (const char* kind : {"ngram", "suffix", "nasd", "unigram", "bigram", "copy", "random", "lookahead",
                           "prediction", "synthetic"})
    add(kind, kind);
  add("ngram tree", "ngram").candidates = 3;
  add("self", "self").layers = 8;
  auto& tree = add("self tree", "self");
  tree.layers = 8;
  tree.tree = config::tree_kind::dynamic;
  return all;
}

class real_grid : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const auto small = smollm2_file()) file_ = small->parent_path() / (GetParam() + ".gguf");
    if (file_.empty() || !std::filesystem::exists(file_))
      GTEST_SKIP() << "no " << GetParam() << ".gguf in PACELINE_MODEL_DIR";
  }
  std::filesystem::path file_;
};

struct totals {
  std::uint32_t drafted = 0, accepted = 0;
};

totals run(engine& runtime, const std::string& drafter, std::uint32_t length,
           std::vector<generation_request> requests, const token_table& plain) {
  std::vector<generation> all(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation.drafter = drafter;
    requests[i].speculation.draft_length = length;
    runtime.submit(requests[i], all[i].sink());
  }
  totals out;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    all[i].wait();
    EXPECT_EQ(all[i].tokens(), plain.at(requests[i].sampling.seed))
        << drafter << ", length " << length << ": request " << i;
    const auto figures = all[i].last().speculation.value_or(speculation_stats{});
    out.drafted += figures.num_draft_tokens;
    out.accepted += figures.num_accepted_tokens;
  }
  return out;
}

TEST_P(real_grid, no_drafter_changes_a_token) {
  auto options = real_engine_options(config::overlap_mode::off);
  auto& model = options.models[0];
  model.name = GetParam();
  model.path = file_;
  model.drafters = drafters();
  auto started = engine_probe::start(options, speculation::drafter_registry::with_built_in());
  ASSERT_TRUE(started) << started.error().message();
  std::vector<generation_request> requests;
  for (const char* text : texts)
    for (const float temperature : {0.0F, 1.0F}) {
      auto request = real_request(0, temperature, max_tokens);
      request.prompt = (*started)->model(GetParam())->vocabulary().encode(text).value();
      request.sampling.seed = 700 + requests.size();
      requests.push_back(std::move(request));
    }
  const auto plain = decode_plainly(file_, requests);
  for (auto& request : requests) { // the client's draft: right except for one token
    auto almost = plain.at(request.sampling.seed);
    almost[max_tokens / 2] = token_id{almost[max_tokens / 2].value ^ 1};
    request.prediction = std::move(almost);
  }
  const auto lengths = std::getenv("PACELINE_FULL_GRID") != nullptr
                           ? std::vector{1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}
                           : std::vector{4U};
  std::vector<std::string> names{"none", "auto"};
  for (const auto& one : model.drafters) names.push_back(one.name);
  for (const auto& name : names) {
    totals sum;
    for (const auto length : lengths) {
      const auto got = run(**started, name, length, requests, plain);
      if (HasFailure()) return; // one failed setting is enough
      sum.drafted += got.drafted, sum.accepted += got.accepted;
    }
    std::printf("%-8s %-10s accepted %5u of %5u draft tokens\n", GetParam().c_str(), name.c_str(),
                sum.accepted, sum.drafted);
    EXPECT_EQ(sum.drafted > 0, name != "none") << name;
    if (name == "prediction" || name == "synthetic") {
      EXPECT_GT(sum.accepted, sum.drafted / 3) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(models, real_grid, ::testing::Values("smollm2", "gemma3", "qwen"),
                         [](const auto& tested) { return tested.param; });

} // namespace
} // namespace paceline::test::real_grid_test
