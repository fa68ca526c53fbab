// A real model on a GPU against the float32 reference; the GPU counterpart of tests/e2e/accuracy_test.cpp.
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/golden.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace paceline::gpu {
namespace {

class accuracy_on_gpu : public gpu_test {
 protected:
  accuracy_on_gpu() : gpu_test(arithmetic::sixteen_bit) {}
};

TEST_F(accuracy_on_gpu, smollm2_is_close_to_float32) {
  const char* directory = std::getenv("PACELINE_MODEL_DIR");
  if (directory == nullptr) GTEST_SKIP() << "PACELINE_MODEL_DIR is not set";
  const auto path = std::filesystem::path(directory) / "smollm2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no smollm2.gguf in PACELINE_MODEL_DIR";
  // For a binary that runs on another machine than the build.
  const char* const sources = std::getenv("PACELINE_SOURCE_DIR");
  auto prompts = test::read_golden(std::filesystem::path(sources != nullptr ? sources : PACELINE_SOURCE_DIR) /
                                   "tests/fixtures/golden/smollm2-135m-instruct-q4_1.json");
  if (tested_gpu_is_emulated()) { // there is only time for a pass of 16 rows
    prompts.resize(1);
    prompts[0].answer.resize(12);
  }
  const auto file = *model::gguf_file::open(path);
  const auto config = *model::read_gguf_config(file);
  const auto source = *model::read_gguf_weights(file, config);
  auto loaded = model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                        {.kv_type = kv_type::f16, .num_threads = 1, .progress = {}});
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto& model = **loaded;
  const auto found = test::measure_agreement(
      model,
      [&](const device::row_batch& batch, model::kv_storage& kv, const model::forward_outputs& outputs) {
        run([&](device::ops& ops) { model.forward(ops, batch, kv, outputs); });
      },
      prompts);
  std::printf("same best token on %u of %u clear positions, mean |difference| %.4f, %u positions\n",
              found.num_clear_same_best, found.num_clear, found.mean_difference, found.num_positions);
  EXPECT_GT(found.num_clear, 0U);
  EXPECT_GE(found.same_best_percent(), 99.5);
  EXPECT_LE(found.mean_difference, 0.01);
}

} // namespace
} // namespace paceline::gpu
