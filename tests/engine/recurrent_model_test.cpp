// A model with short convolutions in the whole engine: every reply is that of plain decoding alone, whatever
// drafts, whoever runs beside it, and wherever its cells and states come from.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace paceline {
namespace {

using model::architecture;
using testing::generation;
using testing::make_request;

class recurrent_model : public ::testing::TestWithParam<architecture> {
 protected:
  recurrent_model() {
    test::tiny_model tiny{
        .arch = GetParam(), .type = device::tensor_type::q8_0, .num_layers = 4, .context_length = 320};
    test::make_tiny_gguf(tiny).write(path_);
    tiny.arch = architecture::llama; // drafts for it; of the same vocabulary
    test::make_tiny_gguf(tiny).write(other_);
  }

  config::engine_options options() const {
    config::engine_options out;
    out.threads = 2;
    out.pass_timing = std::chrono::milliseconds(20);
    auto& model = out.models.emplace_back();
    model.name = "tiny";
    model.path = path_;
    model.block_size = 4; // drafts cross block boundaries
    model.default_drafter = "none";
    model.drafters.push_back(test::options_of("ngram", "ngram"));
    model.drafters.back().ngram_min = 1;
    model.drafters.push_back(test::options_of("ngram_tree", "ngram"));
    model.drafters.back().ngram_min = 1;
    model.drafters.back().candidates = 3;
    model.drafters.push_back(test::options_of("lookahead", "lookahead"));
    for (const char* name : {"model", "model_tree"}) {
      auto& other = model.drafters.emplace_back(test::options_of(name, "model"));
      other.path = other_;
      if (name == std::string("model")) continue;
      other.tree = config::tree_kind::dynamic;
      other.tree_top_k = 2;
    }
    return out;
  }

  std::vector<generation_request> requests() const {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < 10; ++i) { // prompts share prefixes
      all.push_back(make_request(5 + 18 * i, num_tokens_ + i, i % 3, i % 2 == 0 ? 0.0F : 1.0F));
      all.back().speculation.draft_length = 1 + i % 5;
    }
    return all;
  }

  std::vector<std::vector<token_id>> replies(const config::engine_options& options,
                                             const std::string& drafter, bool together,
                                             std::uint32_t beam_width = 0) {
    const auto registry = speculation::drafter_registry::with_built_in();
    testing::emulated_gpu<> gpu;
    auto engine = options.models[0].device.starts_with("cuda")
                      ? engine_probe::start(options, registry, gpu.opener())
                      : engine_probe::start(options, registry);
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    auto wanted = requests();
    wanted.resize(num_requests_);
    std::vector<generation> all(wanted.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      wanted[i].speculation.drafter = drafter;
      wanted[i].beams.width = beam_width;
      (*engine)->submit(wanted[i], all[i].sink());
      if (!together) all[i].wait();
    }
    std::vector<std::vector<token_id>> out;
    for (const generation& reply : all) {
      reply.wait();
      EXPECT_NE(reply.last().finish, finish_reason::error) << reply.last().failure->message();
      out.push_back(reply.tokens());
    }
    const auto figures = snapshot_at_rest(**engine).models.at(0);
    num_preemptions_ = figures.num_preemptions;
    num_hits_ = figures.pools.at(0).prefix_hit_tokens;
    EXPECT_GT(figures.pools.at(0).num_states, 0U);
    EXPECT_EQ(figures.pools.at(0).held_states, 0U) << "states leaked";
    EXPECT_EQ(figures.pools.at(0).cached_states > 0, options.prefix_cache);
    num_accepted_ = num_drafted_ = 0;
    for (const auto& one : figures.drafters) {
      num_accepted_ += one.num_accepted_tokens;
      num_drafted_ += one.num_draft_tokens;
    }
    return out;
  }

  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "tiny.gguf", other_ = folder_ / "other.gguf";
  std::uint32_t num_tokens_ = 20; ///< of the first reply
  std::size_t num_requests_ = 10;
  std::uint64_t num_preemptions_ = 0, num_hits_ = 0, num_accepted_ = 0,
                num_drafted_ = 0; ///< of the last engine
};

TEST_P(recurrent_model, replies_are_those_of_plain_decoding_alone) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 10U);
  EXPECT_NE(expected[0], expected[1]);
  std::uint64_t accepted = 0;
  for (const char* drafter : {"none", "ngram", "ngram_tree", "lookahead", "model", "model_tree", "auto"}) {
    EXPECT_TRUE(replies(options(), drafter, true) == expected) << drafter;
    EXPECT_GT(num_hits_, 0U) << drafter;
    accepted += num_accepted_;
    // Whether `auto` drafts depends on measured times.
    if (drafter != std::string("auto")) {
      EXPECT_EQ(num_drafted_ > 0, drafter != std::string("none")) << drafter;
    }
  }
  EXPECT_GT(accepted, 0U);
}

TEST_P(recurrent_model, replies_stay_the_same_when_requests_are_preempted) {
  num_tokens_ = 100; // so that requests outgrow the pool
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  auto tight = options();
  std::erase_if(tight.models[0].drafters, [](const auto& d) { return d.kind == "model"; }); // and their pools
  tight.memory_budget_bytes = 60000; // little more than a request of full length needs
  for (const char* drafter : {"none", "ngram", "ngram_tree"}) {
    EXPECT_TRUE(replies(tight, drafter, true) == expected) << drafter;
    EXPECT_GT(num_preemptions_, 0U) << drafter;
  }
}

TEST_P(recurrent_model, beam_searches_find_the_same_text_with_drafts_and_without) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false, 3);
  ASSERT_EQ(expected.size(), 10U);
  for (const char* drafter : {"none", "ngram", "model", "model_tree"})
    EXPECT_TRUE(replies(options(), drafter, true, 3) == expected) << drafter;
}

TEST_P(recurrent_model, a_gpu_says_the_same_with_drafts_and_without) {
  num_requests_ = 3; // the emulation takes its time
  auto on_gpu = options();
  on_gpu.models[0].device = "cuda:0";
  auto alone = on_gpu;
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 3U);
  for (const char* drafter : {"ngram", "model_tree"})
    EXPECT_TRUE(replies(on_gpu, drafter, true) == expected) << drafter;
}

TEST_P(recurrent_model, a_drafter_with_a_recurrent_state_is_refused_by_name) {
  for (const char* kind : {"model", "self"}) {
    auto wrong = options();
    auto& drafter = wrong.models[0].drafters.emplace_back(test::options_of("own", kind));
    if (kind == std::string("model")) drafter.path = path_;
    if (kind == std::string("self")) drafter.layers = 2;
    const auto engine = engine_probe::start(wrong, speculation::drafter_registry::with_built_in());
    ASSERT_FALSE(engine) << kind;
    EXPECT_NE(engine.error().message().find("own"), std::string::npos) << engine.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(architectures, recurrent_model,
                         ::testing::Values(architecture::lfm2, architecture::lfm2moe),
                         [](const auto& test) { return std::string(model::to_string(test.param)); });

} // namespace
} // namespace paceline
