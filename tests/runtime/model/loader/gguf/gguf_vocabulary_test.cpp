#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"

#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/tokenizer/pre_tokenizers/bpe_family.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace paceline::model::gguf_vocabulary_test {
namespace {

using test::gguf_builder;
using testing::ElementsAre;
using testing::HasSubstr;
using tokenizer::token_type;
using tokenizer::vocabulary_kind;

const std::vector<std::string> words = {"a", "b", "ab", "<|im_end|>"};

gguf_builder bpe() {
  gguf_builder file;
  file.set_string("tokenizer.ggml.model", "gpt2").set_strings("tokenizer.ggml.tokens", words);
  file.set_strings("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  return file;
}

gguf_builder spm() {
  gguf_builder file;
  file.set_string("tokenizer.ggml.model", "llama");
  file.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<0x0A>", "a"});
  file.set_float32s("tokenizer.ggml.scores", std::vector<float>{0, 0, -1});
  file.set_int32s("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 6, 1});
  return file;
}

expected<tokenizer::vocabulary_data> read(const gguf_builder& builder) {
  const auto bytes = builder.build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  if (!file) return file.error();
  return read_gguf_vocabulary(file->metadata());
}

std::string refusal_text(const gguf_builder& builder) {
  const auto vocabulary = read(builder);
  return vocabulary ? "was accepted" : vocabulary.error().message();
}

TEST(gguf_vocabulary, a_bpe_vocabulary_is_read) {
  auto builder = bpe();
  builder.set_string("tokenizer.ggml.pre", "smollm").set_string("tokenizer.chat_template", "{{ x }}");
  builder.set_string("general.name", "Tiny");
  builder.set_uint32("tokenizer.ggml.bos_token_id", 1).set_bool("tokenizer.ggml.add_bos_token", true);
  const auto vocabulary = read(builder);
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->kind, vocabulary_kind::bpe);
  EXPECT_EQ(vocabulary->tokens, words);
  EXPECT_THAT(vocabulary->merges, ElementsAre(std::pair<std::string, std::string>("a", "b")));
  EXPECT_EQ(vocabulary->pre, "smollm");
  EXPECT_EQ(vocabulary->model_name, "Tiny");
  EXPECT_EQ(vocabulary->chat_template, "{{ x }}");
  EXPECT_EQ(vocabulary->bos, token_id{1});
  EXPECT_EQ(vocabulary->add_bos, true);
  EXPECT_EQ(vocabulary->add_eos, std::nullopt);
  EXPECT_TRUE(vocabulary->types.empty());
}

TEST(gguf_vocabulary, an_spm_vocabulary_is_read) {
  const auto vocabulary = read(spm());
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->kind, vocabulary_kind::spm);
  EXPECT_THAT(vocabulary->scores, ElementsAre(0, 0, -1));
  EXPECT_THAT(vocabulary->types, ElementsAre(token_type::unknown, token_type::byte, token_type::normal));
}

TEST(gguf_vocabulary, an_architecture_with_one_pre_tokenizer_needs_no_name_of_it) {
  const auto pre_of = [](const char* architecture, const char* stated) {
    auto builder = bpe();
    builder.set_string("general.architecture", architecture);
    if (stated != nullptr) builder.set_string("tokenizer.ggml.pre", stated);
    return read(builder)->pre;
  };
  for (const auto& [architecture, pre] : {std::pair{"mistral3", "tekken"},
                                          {"lfm2", "lfm2"},
                                          {"lfm2moe", "lfm2"},
                                          {"qwen35", "qwen35"},
                                          {"qwen35moe", "qwen35"},
                                          {"qwen3moe", "qwen2"},
                                          {"qwen3next", "qwen2"},
                                          {"olmo2", "dbrx"},
                                          {"olmo3", "dbrx"},
                                          {"smollm3", "smaug-bpe"}}) {
    EXPECT_EQ(pre_of(architecture, nullptr), pre) << architecture;
    EXPECT_EQ(pre_of(architecture, "default"), pre) << architecture;
    EXPECT_TRUE(tokenizer::find_bpe_family(pre)) << architecture;
  }
  EXPECT_EQ(pre_of("qwen3moe", "kormo"), "kormo") << "what the file states counts";
  EXPECT_EQ(pre_of("llama", nullptr), "") << "its models have several";
  EXPECT_EQ(pre_of("llama", "default"), "default");
  auto of_pieces = spm();
  EXPECT_EQ(read(of_pieces.set_string("general.architecture", "mistral3"))->pre, "");
}

TEST(gguf_vocabulary, a_list_of_ends_is_read) {
  const std::string key = "tokenizer.ggml.eos_token_ids";
  const auto listed = read(
      bpe().set_uint32("tokenizer.ggml.eos_token_id", 2).set_int32s(key, std::vector<std::int32_t>{0, 2}));
  ASSERT_TRUE(listed) << listed.error().message();
  EXPECT_EQ(listed->eos, token_id{2});
  EXPECT_THAT(listed->eos_like, ElementsAre(token_id{0}, token_id{2}, token_id{3}));
  for (const std::int32_t wrong : {-1, 4})
    EXPECT_THAT(refusal_text(bpe().set_int32s(key, std::vector<std::int32_t>{0, wrong})),
                HasSubstr("'" + key + "' must hold ids below the number of tokens 4"));
  EXPECT_THAT(refusal_text(bpe().set_string(key, "0")), HasSubstr("'" + key + "' must"));
}

TEST(gguf_vocabulary, all_ids_that_end_a_generation_are_found) {
  auto builder = bpe();
  builder.set_uint32("tokenizer.ggml.eos_token_id", 2).set_uint32("tokenizer.ggml.eot_token_id", 0);
  EXPECT_THAT(read(builder)->eos_like, ElementsAre(token_id{0}, token_id{2}, token_id{3}));
}

/// Ids that end a generation in a vocabulary of these tokens whose EOS is `eos`.
std::vector<int> ends(const std::vector<std::string>& tokens, std::uint32_t eos,
                      std::optional<std::uint32_t> eot = {}) {
  auto builder = bpe();
  builder.set_strings("tokenizer.ggml.tokens", tokens).set_uint32("tokenizer.ggml.eos_token_id", eos);
  if (eot) builder.set_uint32("tokenizer.ggml.eot_token_id", *eot);
  const auto vocabulary = read(builder);
  EXPECT_TRUE(vocabulary) << vocabulary.error().message();
  std::vector<int> ids;
  if (vocabulary)
    for (const auto id : vocabulary->eos_like) ids.push_back(id.value);
  return ids;
}

TEST(gguf_vocabulary, every_spelling_that_ends_a_generation_is_one_whatever_the_file_names) {
  EXPECT_THAT(ends({"a", "[EOS]", "[EOT]", "<|eot|>", "<|im_start|>"}, 0), ElementsAre(0, 1, 2, 3)) << "Kimi";
  EXPECT_THAT(ends({"a", "<eos>", "<turn|>", "<|tool_response>", "</s>"}, 1), ElementsAre(1, 2, 3))
      << "Gemma 4";
  EXPECT_THAT(ends({"a", "<|flush|>", "<|calls|>", "[e~[", "b"}, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ends({"a", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}, 0),
              ElementsAre(0, 2, 3, 4))
      << "a middle that was filled in ends where another file begins";
}

TEST(gguf_vocabulary, an_end_of_a_message_ends_no_generation_in_harmony) {
  const std::vector<std::string> harmony{"a", "b", "ab", "<|return|>", "<|end|>", "<|call|>"};
  EXPECT_THAT(ends(harmony, 3), ElementsAre(3, 5));
  EXPECT_THAT(ends(harmony, 3, 4), ElementsAre(3, 5)) << "not even if the file calls it the end of a turn";
  EXPECT_THAT(ends({"a", "<|end|>", "<|flush|>", "<|calls|>"}, 2), ElementsAre(2, 3)) << "Solar";
  EXPECT_THAT(ends({"a", "b", "ab", "<|endoftext|>", "<|end|>"}, 3), ElementsAre(3, 4)) << "Phi";
}

TEST(gguf_vocabulary, ids_are_below_the_number_of_tokens_or_none) {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "padding"}) {
    const auto key = "tokenizer.ggml." + std::string(name) + "_token_id";
    EXPECT_THAT(refusal_text(bpe().set_uint32(key, 4)),
                HasSubstr("'" + key + "' must be below the number of tokens 4, is 4"));
    EXPECT_EQ(refusal_text(bpe().set_uint32(key, 3)), "was accepted");
  }
  const auto none = read(bpe().set_uint32("tokenizer.ggml.padding_token_id", 0xffffffff));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->pad, std::nullopt);
}

TEST(gguf_vocabulary, lists_are_as_long_as_the_tokens) {
  EXPECT_THAT(refusal_text(bpe().set_int32s("tokenizer.ggml.token_type", std::vector<std::int32_t>{1})),
              HasSubstr("one integer for each token"));
  EXPECT_THAT(refusal_text(spm().set_float32s("tokenizer.ggml.scores", std::vector<float>{1})),
              HasSubstr("one float32 for each token"));
  EXPECT_THAT(refusal_text(spm().remove("tokenizer.ggml.scores")),
              HasSubstr("'tokenizer.ggml.scores' is missing"));
  EXPECT_THAT(refusal_text(bpe().remove("tokenizer.ggml.merges")),
              HasSubstr("'tokenizer.ggml.merges' is missing"));
  EXPECT_THAT(refusal_text(bpe().remove("tokenizer.ggml.tokens")), HasSubstr("missing or empty"));
}

TEST(gguf_vocabulary, elements_keep_their_rules) {
  EXPECT_THAT(
      refusal_text(bpe().set_int32s("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 7, 1})),
      HasSubstr("element 2 must be 0 to 6"));
  EXPECT_THAT(
      refusal_text(bpe().set_int32s("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, -1, 1})),
      HasSubstr("element 2 must be 0 to 6"));
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal_text(spm().set_float32s("tokenizer.ggml.scores", std::vector<float>{0, nan, 0})),
              HasSubstr("element 1 must be finite"));
  for (const auto* merge : {"ab", "", " ab", "ab "})
    EXPECT_THAT(refusal_text(bpe().set_strings("tokenizer.ggml.merges", std::vector<std::string>{merge})),
                HasSubstr("element 0 must be two parts"));
}

TEST(gguf_vocabulary, byte_tokens_spell_a_byte) {
  for (const auto* spelling : {"<0x-1>", "<0x1>", "<0x100>", "<0xGG>", "0x0A", ""}) {
    auto builder = spm();
    builder.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", spelling, "a"});
    EXPECT_THAT(refusal_text(builder), HasSubstr("not <0xHH>")) << spelling;
  }
}

TEST(gguf_vocabulary, other_kinds_are_refused_by_name) {
  const auto vocabulary = read(bpe().set_string("tokenizer.ggml.model", "rwkv"));
  ASSERT_FALSE(vocabulary);
  EXPECT_EQ(vocabulary.error().code(), errc::unsupported);
  EXPECT_THAT(vocabulary.error().message(), HasSubstr("'rwkv'"));
}

} // namespace
} // namespace paceline::model::gguf_vocabulary_test
