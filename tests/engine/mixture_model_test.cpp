// A mixture of experts in the whole engine: every reply is that of plain decoding alone, whatever drafts,
// whoever runs beside it, and wherever its cells come from.
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

using testing::generation;
using testing::make_request;

class mixture_model : public ::testing::Test {
 protected:
  mixture_model() {
    test::make_tiny_gguf({.arch = model::architecture::qwen3moe,
                          .type = device::tensor_type::q8_0,
                          .num_layers = 4,
                          .context_length = 96})
        .write(path_);
  }

  /// "same" drafts with the model itself, chains or, as "tree", trees; "part" with its first two layers.
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
    auto& part = model.drafters.emplace_back(test::options_of("part", "self"));
    part.layers = 2;
    for (const char* name : {"same", "tree"}) {
      auto& same = model.drafters.emplace_back(test::options_of(name, "model"));
      same.path = path_;
      if (name == std::string("same")) continue;
      same.tree = config::tree_kind::dynamic;
      same.tree_top_k = 2;
    }
    return out;
  }

  std::vector<generation_request> requests() const {
    std::vector<generation_request> all;
    for (std::uint32_t i = 0; i < num_requests_; ++i) {
      all.push_back(
          make_request(5 + 6 * i, 20 + i, i % 3, i % 2 == 0 ? 0.0F : 1.0F)); // prompts share prefixes
      all.back().speculation.draft_length = 1 + i % 5;
    }
    return all;
  }

  std::vector<std::vector<token_id>> replies(const config::engine_options& options,
                                             const std::string& drafter, bool together) {
    testing::emulated_gpu<> gpu;
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    auto wanted = requests();
    std::vector<generation> all(wanted.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      wanted[i].speculation.drafter = drafter;
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
    num_accepted_ = 0;
    for (const auto& one : figures.drafters) num_accepted_ += one.num_accepted_tokens;
    return out;
  }

  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "tiny.gguf";
  std::uint32_t num_requests_ = 10;
  std::uint64_t num_preemptions_ = 0, num_hits_ = 0, num_accepted_ = 0; ///< of the last engine
};

TEST_F(mixture_model, replies_are_those_of_plain_decoding_alone) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 10U);
  EXPECT_NE(expected[0], expected[1]);
  for (const char* drafter : {"none", "ngram", "part", "same", "tree", "auto"}) {
    EXPECT_TRUE(replies(options(), drafter, true) == expected) << drafter;
    EXPECT_GT(num_hits_, 0U) << drafter;
    // Whether `auto` drafts depends on measured times.
    if (drafter != std::string("auto")) {
      EXPECT_EQ(num_accepted_ > 0, drafter != std::string("none")) << drafter;
    }
  }
}

TEST_F(mixture_model, replies_on_a_gpu_are_those_of_plain_decoding_there) {
  num_requests_ = 2; // an emulated GPU takes its time
  auto alone = options();
  alone.prefix_cache = false;
  const auto on_cpu = replies(alone, "none", false);
  for (const char* device : {"cuda:0/reference", "cuda:0"}) {
    auto on_gpu = options();
    on_gpu.models[0].device = alone.models[0].device = device;
    const auto expected = replies(alone, "none", false);
    if (device == std::string("cuda:0/reference")) {
      EXPECT_TRUE(expected == on_cpu);
    }
    for (const char* drafter : {"ngram", "same", "tree"}) {
      EXPECT_TRUE(replies(on_gpu, drafter, true) == expected) << drafter << " on " << device;
      EXPECT_GT(num_accepted_, 0U) << drafter << " on " << device;
    }
  }
}

TEST_F(mixture_model, replies_stay_the_same_when_requests_are_preempted) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  auto tight = options();
  tight.memory_budget_bytes = 130000; // little more than a request of full length needs
  for (const char* drafter : {"none", "ngram", "same"}) {
    EXPECT_TRUE(replies(tight, drafter, true) == expected) << drafter;
    EXPECT_GT(num_preemptions_, 0U) << drafter;
  }
}

} // namespace
} // namespace paceline
