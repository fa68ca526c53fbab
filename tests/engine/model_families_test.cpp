// Families whose layers differ from llama's, in the whole engine: a mixture of experts, and layers with
// windows and without norms before their blocks. Every reply is that of plain decoding alone, whatever
// drafts, whatever other requests run, and wherever its cells come from.
#include "tests/engine/served_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

class model_families : public testing::served_model,
                       public ::testing::WithParamInterface<model::architecture> {
 protected:
  model_families() {
    test::make_tiny_gguf(
        {.arch = GetParam(), .type = device::tensor_type::q8_0, .num_layers = 4, .context_length = 96})
        .write(path_);
  }

  /// "same" drafts with the model itself, chains or, as "tree", trees; "part" with its first two layers.
  config::engine_options options() const {
    auto out = basic_options();
    auto& model = out.models[0];
    model.drafters.push_back(test::options_of("part", "self"));
    model.drafters.back().layers = 2;
    add_draft_model(model, path_, "same", "tree");
    return out;
  }

  all_tokens replies(const config::engine_options& options, const std::string& drafter, bool together) {
    auto wanted = requests(6);
    for (auto& one : wanted) one.speculation.drafter = drafter;
    return serve(options, wanted, together);
  }
};

TEST_P(model_families, replies_are_those_of_plain_decoding_alone) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  ASSERT_EQ(expected.size(), 10U);
  EXPECT_NE(expected[0], expected[1]);
  for (const char* drafter : {"none", "ngram", "part", "same", "tree", "auto"}) {
    EXPECT_TRUE(replies(options(), drafter, true) == expected) << drafter;
    EXPECT_GT(num_hits(), 0U) << drafter;
    // Whether `auto` drafts depends on measured times.
    if (drafter != std::string("auto")) {
      EXPECT_EQ(num_accepted_ > 0, drafter != std::string("none")) << drafter;
    }
  }
}

TEST_P(model_families, replies_on_a_gpu_are_those_of_plain_decoding_there) {
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

TEST_P(model_families, replies_stay_the_same_when_requests_are_preempted) {
  auto alone = options();
  alone.prefix_cache = false;
  const auto expected = replies(alone, "none", false);
  auto tight = options();
  tight.memory_budget_bytes = 130000; // little more than a request of full length needs
  for (const char* drafter : {"none", "ngram", "same"}) {
    EXPECT_TRUE(replies(tight, drafter, true) == expected) << drafter;
    EXPECT_GT(figures_.num_preemptions, 0U) << drafter;
  }
}

INSTANTIATE_TEST_SUITE_P(models, model_families,
                         ::testing::Values(model::architecture::qwen3moe, model::architecture::olmo2),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

} // namespace
} // namespace paceline
