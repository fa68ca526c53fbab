#include "runtime/model/loader/model_source.hpp"

#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace paceline::model {
namespace {

class model_sources : public testing::Test {
 protected:
  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "model";
};

TEST_F(model_sources, a_gguf_file_gives_config_weights_and_vocabulary) {
  auto builder = test::make_tiny_gguf({});
  builder.set_string("tokenizer.chat_template", "{{ x }}").write(path_);
  const auto source = open_model(path_);
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_TRUE(source->vocabulary);
  EXPECT_EQ(source->vocabulary->tokens.size(), source->config.vocab_size);
  EXPECT_EQ(source->chat_template, "{{ x }}");
  EXPECT_EQ(source->eos_ids.size(), 2U);
  EXPECT_FALSE(source->weights.at(tensor_role::q, 1).empty());
}

TEST_F(model_sources, a_gguf_file_without_vocabulary_opens) {
  auto builder = test::make_tiny_gguf({});
  for (const auto* key : {"model", "tokens", "merges", "token_type"})
    builder.remove(std::string("tokenizer.ggml.") + key);
  builder.write(path_);
  const auto source = open_model(path_);
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_FALSE(source->vocabulary);
  EXPECT_EQ(source->config.vocab_size, 288U);
}

TEST_F(model_sources, a_hugging_face_directory_gives_config_weights_and_tokenizer_settings) {
  test::write_tiny_hf({}, path_);
  test::write_text(path_ / "tokenizer.json", "{}");
  const auto source = open_model(path_);
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_FALSE(source->vocabulary);
  ASSERT_TRUE(source->tokenizer);
  EXPECT_EQ(source->tokenizer->tokenizer_json, path_ / "tokenizer.json");
  EXPECT_THAT(source->eos_ids, testing::ElementsAre(token_id{1}));
}

TEST_F(model_sources, a_folder_of_gguf_files_names_them) {
  std::filesystem::create_directories(path_);
  for (const auto* name : {"b.gguf", "a.gguf", "notes.txt"}) test::write_text(path_ / name, "");
  const auto source = open_model(path_);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code(), errc::not_found);
  EXPECT_THAT(source.error().message(),
              testing::EndsWith("has no config.json; name one of its GGUF files: a.gguf, b.gguf"));
  for (int i = 0; i < 9; ++i) test::write_text(path_ / ("c" + std::to_string(i) + ".gguf"), "");
  EXPECT_THAT(open_model(path_).error().message(), testing::EndsWith("c5.gguf, and 3 more"));
}

TEST_F(model_sources, what_is_not_there_is_not_found) {
  EXPECT_EQ(open_model(path_).error().code(), errc::not_found);
  std::filesystem::create_directories(path_);
  EXPECT_EQ(open_model(path_).error().code(), errc::not_found);
}

struct known_model {
  const char* file;
  architecture arch;
  std::uint32_t vocab_size, num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_size;
  std::size_t num_merges;
};

class real_models : public testing::TestWithParam<known_model> {};

TEST_P(real_models, open_with_what_is_known_of_them) {
  const char* directory = std::getenv("PACELINE_MODEL_DIR");
  if (!directory) GTEST_SKIP() << "PACELINE_MODEL_DIR is not set: 1 real model not tried";
  const auto& known = GetParam();
  const auto path = std::filesystem::path(directory) / known.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " does not exist: 1 real model not tried";
  const auto source = open_model(path);
  ASSERT_TRUE(source) << source.error().message();
  const auto& config = source->config;
  EXPECT_EQ(config.arch, known.arch);
  EXPECT_EQ(config.vocab_size, known.vocab_size);
  EXPECT_EQ(config.num_layers, known.num_layers);
  EXPECT_EQ(config.hidden_size, known.hidden_size);
  EXPECT_EQ(config.num_heads, known.num_heads);
  EXPECT_EQ(config.num_kv_heads, known.num_kv_heads);
  EXPECT_EQ(config.head_dim, known.head_dim);
  EXPECT_EQ(config.ffn_size, known.ffn_size);
  ASSERT_TRUE(source->vocabulary);
  EXPECT_EQ(source->vocabulary->tokens.size(), known.vocab_size);
  EXPECT_EQ(source->vocabulary->merges.size(), known.num_merges);
  EXPECT_GE(source->eos_ids.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(
    files, real_models,
    testing::Values(known_model{"smollm2.gguf", architecture::llama, 49152, 30, 576, 9, 3, 64, 1536, 48900},
                    known_model{"gemma3.gguf", architecture::gemma3, 262144, 18, 640, 4, 1, 256, 2048, 0},
                    known_model{"qwen.gguf", architecture::qwen2, 151936, 24, 896, 14, 2, 64, 4864, 151387}),
    [](const auto& tested) { return std::string(to_string(tested.param.arch)); });

} // namespace
} // namespace paceline::model
