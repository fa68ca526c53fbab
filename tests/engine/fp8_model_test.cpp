// Checkpoints with FP8 weights, from the directory to the text. On the CPU the text is that of the
// dequantised values, and on both devices it is the same with a drafter as without.
#include "engine/probe.hpp"
#include "engine/snapshot.hpp"
#include "tests/engine/emulated_gpu.hpp"
#include "tests/engine/generation.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/test_drafters.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace paceline {
namespace {

using test::fp8_scales;
using testing::generation;
using testing::make_request;

struct said {
  std::vector<token_id> tokens;
  std::string text;
  friend bool operator==(const said&, const said&) = default;
};

class fp8_model : public ::testing::TestWithParam<fp8_scales> {
 protected:
  fp8_model() {
    const test::tiny_model shape{
        .arch = model::architecture::qwen3, .hidden_size = 192, .head_dim = 64, .ffn_size = 320};
    test::write_tiny_hf(shape, root_ / "fp8", 2, {GetParam()});
    test::write_tiny_hf(shape, root_ / "decoded", 1, {GetParam(), true});
    for (const char* name : {"fp8", "decoded"}) test::write_tiny_tokenizer(root_ / name, shape.vocab_size);
  }

  /// The reply of a model of `directory` on `device` to a greedy request and a sampled one, with drafter
  /// "same" (the FP8 model on that device) or none.
  std::vector<said> replies(const std::string& directory, const std::string& device,
                            const std::string& drafter) {
    config::engine_options options;
    options.threads = 1;
    auto& model = options.models.emplace_back();
    model.name = "tiny";
    model.path = root_ / directory;
    model.device = device;
    model.default_drafter = "none";
    auto& same = model.drafters.emplace_back(test::options_of("same", "model"));
    same.path = root_ / "fp8";
    same.device = device;
    same.draft_length = 3;
    testing::emulated_gpu<> gpu;
    auto engine = engine_probe::start(options, speculation::drafter_registry::with_built_in(), gpu.opener());
    if (!engine) {
      ADD_FAILURE() << engine.error().message();
      return {};
    }
    std::vector<said> out;
    for (const float temperature : {0.0F, 1.0F}) {
      auto request = make_request(9, 24, 3, temperature);
      request.speculation.drafter = drafter;
      request.speculation.draft_length = 3;
      generation reply;
      (*engine)->submit(request, reply.sink());
      reply.wait();
      EXPECT_NE(reply.last().finish, finish_reason::error) << reply.last().failure->message();
      out.push_back({reply.tokens(), reply.text()});
      EXPECT_EQ(out.back().tokens.size(), 24U);
      EXPECT_NE(out.back().text.find("t" + std::to_string(out.back().tokens[0].value) + " "),
                std::string::npos);
    }
    num_accepted_ = snapshot_at_rest(**engine).models.at(0).drafters.at(0).num_accepted_tokens;
    num_streamed_ = gpu.runtime.num_launches(gpu::kernel_id::stream_f8);
    return out;
  }

  test::scratch_folder root_;
  std::uint64_t num_accepted_ = 0; ///< in the previous engine
  std::uint64_t num_streamed_ = 0; ///< products with FP8 weights on its GPU
};

TEST_P(fp8_model, says_on_the_cpu_what_its_values_say_with_a_drafter_and_without) {
  const auto plain = replies("fp8", "cpu", "none");
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_NE(plain[0], plain[1]);
  EXPECT_EQ(replies("decoded", "cpu", "none"), plain);
  EXPECT_EQ(replies("fp8", "cpu", "same"), plain);
  EXPECT_GT(num_accepted_, 20U);
}

TEST_P(fp8_model, says_on_a_gpu_the_same_with_a_drafter_as_without) {
  const auto plain = replies("fp8", "cuda:0", "none");
  EXPECT_GT(num_streamed_, 100U);
  EXPECT_EQ(replies("fp8", "cuda:0", "same"), plain);
  EXPECT_GT(num_accepted_, 20U);
}

INSTANTIATE_TEST_SUITE_P(scales, fp8_model,
                         ::testing::Values(fp8_scales::blocks, fp8_scales::rows, fp8_scales::one),
                         [](const auto& test) {
                           return test.param == fp8_scales::blocks ? "blocks"
                                  : test.param == fp8_scales::rows ? "rows"
                                                                   : "one";
                         });

} // namespace
} // namespace paceline
