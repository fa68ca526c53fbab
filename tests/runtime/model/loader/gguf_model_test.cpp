#include "runtime/model/loader/gguf_model.hpp"

#include "runtime/model/loader/gguf_vocabulary.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

namespace paceline::model {
namespace {

class gguf_model_of : public testing::TestWithParam<architecture> {};

TEST_P(gguf_model_of, every_architecture_opens_with_its_config_vocabulary_and_weights) {
  const auto bytes = test::make_tiny_gguf({.arch = GetParam()}).build();
  const auto file = gguf_file::parse(bytes, "tiny");
  ASSERT_TRUE(file) << file.error().message();
  const auto config = read_gguf_config(*file);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->arch, GetParam());
  EXPECT_EQ(config->vocab_size, 288U);
  EXPECT_EQ(config->layout == rope_layout::interleaved, GetParam() == architecture::llama);
  const auto weights = read_gguf_weights(*file, *config);
  ASSERT_TRUE(weights) << weights.error().message();
  const auto vocabulary = read_gguf_vocabulary(file->metadata());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->tokens.size(), 288U);
}

INSTANTIATE_TEST_SUITE_P(architectures, gguf_model_of,
                         testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                         architecture::gemma3),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

} // namespace
} // namespace paceline::model
