#include "runtime/model/loader/hugging_face/hf_directory.hpp"

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "tests/support/all_tensors.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace paceline::model {
namespace {

using device::tensor_type;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;

class hf_directories : public testing::Test {
 protected:
  std::string problem() const {
    const auto opened = hf_directory::open(directory_);
    if (!opened) return opened.error().message();
    const auto weights = read_hf_weights(*opened);
    return weights ? "was accepted" : weights.error().message();
  }

  test::scratch_folder folder_;
  std::filesystem::path directory_ = folder_ / "model";
};

/// Row `row` of a matrix of F32.
std::vector<float> row_of(const weight_view& view, std::size_t row) {
  std::vector<float> values(view.tensor.num_cols);
  std::memcpy(values.data(), view.tensor.bytes.data() + row * values.size() * sizeof(float),
              values.size() * sizeof(float));
  return values;
}

TEST_F(hf_directories, the_same_weights_come_from_both_formats) {
  for (const auto arch :
       {architecture::llama, architecture::qwen2, architecture::qwen3, architecture::qwen3moe,
        architecture::granite, architecture::mistral3, architecture::olmo2, architecture::phi3,
        architecture::smollm3, architecture::gemma3}) {
    const test::tiny_model options{.arch = arch, .tied_embeddings = false};
    test::write_tiny_hf(options, directory_);
    const auto directory = hf_directory::open(directory_);
    ASSERT_TRUE(directory) << directory.error().message();
    const auto weights = read_hf_weights(*directory);
    ASSERT_TRUE(weights) << weights.error().message();
    const auto bytes = test::make_tiny_gguf(options).build();
    const auto gguf = gguf_file::parse(bytes, "x.gguf");
    const auto gguf_config = read_gguf_config(*gguf);
    ASSERT_TRUE(gguf_config) << gguf_config.error().message();
    const auto gguf_weights = read_gguf_weights(*gguf, *gguf_config);

    const auto ours = test::all_tensors(*weights), theirs = test::all_tensors(*gguf_weights);
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto& [role, view] = ours[i];
      const weight_view& other = theirs[i].second;
      ASSERT_EQ(role, theirs[i].first);
      ASSERT_EQ(view.empty(), other.empty()) << role;
      if (view.empty() || (test::is_permuted(arch) && (role == "q" || role == "k"))) continue;
      ASSERT_TRUE(weights->read(view.tensor.bytes));
      ASSERT_EQ(view.tensor.num_rows, other.tensor.num_rows) << role;
      for (std::size_t row = 0; row < view.tensor.num_rows; ++row)
        EXPECT_THAT(row_of(view, row), testing::Pointwise(testing::FloatNear(1e-6F), row_of(other, row)))
            << role;
    }
    auto config = directory->config;
    EXPECT_EQ(config.local_layers, gguf_config->local_layers);
    EXPECT_EQ(config.local_rope.theta, arch == architecture::gemma3 ? 1000 : 10000);
    EXPECT_EQ(config.attention_scale, gguf_config->attention_scale);
    EXPECT_EQ(config.embedding_scale, gguf_config->embedding_scale);
    EXPECT_EQ(config.residual_scale, gguf_config->residual_scale);
    EXPECT_EQ(config.logits_scale, gguf_config->logits_scale);
    EXPECT_EQ(config.growth.beta, gguf_config->growth.beta);
    EXPECT_EQ(config.growth.period, gguf_config->growth.period);
    EXPECT_NEAR(config.rope.scaling.magnitude, gguf_config->rope.scaling.magnitude, 1e-6);
    EXPECT_EQ(config.rope.frequency_divisors, gguf_config->rope.frequency_divisors);
    EXPECT_EQ(config.local_rope.frequency_divisors, gguf_config->local_rope.frequency_divisors);
    EXPECT_EQ(config.num_rotated(), gguf_config->num_rotated());
    EXPECT_EQ(config.rope.scaling.kind, gguf_config->rope.scaling.kind);
    EXPECT_EQ(config.local_rope.scaling.kind, gguf_config->local_rope.scaling.kind);
    EXPECT_EQ(config.sliding_window, gguf_config->sliding_window);
    EXPECT_EQ(config.unrotated_layers, gguf_config->unrotated_layers);
  }
}

TEST_F(hf_directories, experts_in_one_tensor_equal_experts_in_a_tensor_each) {
  test::tiny_model options{.arch = architecture::qwen3moe};
  test::write_tiny_hf(options, folder_ / "each");
  options.fused_experts = true;
  test::write_tiny_hf(options, directory_);
  const auto each = read_hf_weights(*hf_directory::open(folder_ / "each"));
  const auto fused = read_hf_weights(*hf_directory::open(directory_));
  ASSERT_TRUE(each) << each.error().message();
  ASSERT_TRUE(fused) << fused.error().message();
  const auto ours = test::all_tensors(*fused), theirs = test::all_tensors(*each);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto& [role, view] = ours[i];
    const weight_view& other = theirs[i].second;
    ASSERT_TRUE(fused->read(view.tensor.bytes));
    ASSERT_TRUE(each->read(other.tensor.bytes));
    ASSERT_EQ(view.tensor.num_rows, other.tensor.num_rows) << role;
    EXPECT_TRUE(std::ranges::equal(view.tensor.bytes, other.tensor.bytes)) << role;
  }
  EXPECT_EQ(fused->experts(tensor_role::ffn_down_experts, 0).size(), 8U);
  EXPECT_TRUE(fused->experts(tensor_role::ffn_down_experts, 1).empty()) << "a layer without experts";
  EXPECT_EQ(fused->total_bytes(), each->total_bytes());
}

TEST_F(hf_directories, refuses_experts_that_do_not_fit) {
  const test::tiny_model options{.arch = architecture::qwen3moe, .num_layers = 1, .dense_layer = -1};
  const std::string up5 = "model.layers.0.mlp.experts.5.up_proj.weight";
  const auto with = [&](const std::string& removed, const std::string& added, const std::string& type,
                        const std::vector<std::uint64_t>& shape) {
    test::write_tiny_hf(options, folder_ / "whole");
    const auto whole = safetensors_file::open(folder_ / "whole" / "model.safetensors");
    test::safetensors_builder builder;
    for (const auto& tensor : whole->tensors()) {
      if (tensor.name == removed) continue;
      const std::vector<std::uint64_t> dims(tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims);
      builder.add(tensor.name, "F32", dims, std::vector<std::byte>(tensor.data.size()));
    }
    std::uint64_t num_values = 1;
    for (const std::uint64_t size : shape) num_values *= size;
    if (!added.empty())
      builder.add(added, type, shape, std::vector<std::byte>(num_values * (type == "F32" ? 4 : 2)));
    std::filesystem::create_directories(directory_);
    write_text(directory_ / "config.json", test::tiny_hf_config(options));
    test::write_bytes(directory_ / "model.safetensors", builder.build());
    return problem();
  };
  EXPECT_EQ(with("", "", "", {}), "was accepted");
  EXPECT_THAT(with(up5, "", "", {}), HasSubstr("tensor '" + up5 + "' is missing"));
  EXPECT_THAT(with(up5, up5, "BF16", {32, 32}), HasSubstr("must have the type of the other experts"));
  EXPECT_THAT(with(up5, up5, "F32", {0, 32}), HasSubstr("up_proj.weight' must not be empty"));
  EXPECT_THAT(with("", "model.layers.0.mlp.experts.8.up_proj.weight", "F32", {32, 32}),
              HasSubstr("belongs to expert 8 of a layer with 8 experts"));
  EXPECT_THAT(with("", "model.layers.0.mlp.experts.down_proj", "F32", {0, 32, 32}),
              HasSubstr("down_proj' must not be empty"));
  EXPECT_THAT(with("", "model.layers.0.mlp.experts.down_proj", "F32", {8, 32, 32}),
              HasSubstr("occurs twice"));
  EXPECT_THAT(with("model.norm.weight", "model.norm.weight", "F32", {2, 1, 32}),
              HasSubstr("must have 1 or 2 dimensions"));
}

TEST_F(hf_directories, layers_have_experts_by_step_and_list) {
  test::tiny_model options{.arch = architecture::qwen3moe, .num_layers = 4, .dense_layer = 2};
  test::write_tiny_hf(options, directory_);
  EXPECT_EQ(hf_directory::open(directory_)->config.experts.layers,
            (std::vector<bool>{true, true, false, true}));
  EXPECT_TRUE(hf_directory::open(directory_)->config.experts.routing.normalised);
  auto text = test::tiny_hf_config(options);
  text.insert(1, R"("decoder_sparse_step":2,)");
  write_text(directory_ / "config.json", text);
  text.replace(text.find(R"(,"norm_topk_prob":true)"), 22, "");
  write_text(directory_ / "config.json", text);
  const auto opened = hf_directory::open(directory_);
  EXPECT_EQ(opened->config.experts.layers, (std::vector<bool>{false, true, false, true}));
  EXPECT_FALSE(opened->config.experts.routing.normalised) << "the default of transformers' class";
  for (const auto& [from, to, rule] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"("mlp_only_layers":[2])", R"("mlp_only_layers":[4])",
            "'mlp_only_layers' must hold numbers of layers"},
           {R"("num_experts_per_tok":3)", R"("num_experts_per_tok":9)",
            "num_used_experts must be 1 to 8, is 9"},
           {R"("num_experts":8)", R"("num_experts":2000)", "num_experts must be at most 1024, is 2000"},
           {R"("moe_intermediate_size":32)", R"("moe_intermediate_size":0)", "expert ffn_size must be 1"}}) {
    auto broken = test::tiny_hf_config(options);
    ASSERT_NE(broken.find(from), std::string::npos) << from;
    broken.replace(broken.find(from), from.size(), to);
    write_text(directory_ / "config.json", broken);
    EXPECT_THAT(problem(), HasSubstr(rule));
  }
}

TEST_F(hf_directories, rows_of_llama_heads_are_in_half_split_order) {
  const test::tiny_model options;
  test::write_tiny_hf(options, directory_);
  const auto weights = read_hf_weights(*hf_directory::open(directory_));
  const auto bytes = test::make_tiny_gguf(options).build();
  const auto gguf = gguf_file::parse(bytes, "x.gguf");
  const auto gguf_weights = read_gguf_weights(*gguf, *read_gguf_config(*gguf));
  const auto& ours = weights->at(tensor_role::q, 0);
  const auto& theirs = gguf_weights->at(tensor_role::q, 0);
  ASSERT_TRUE(weights->read(ours.tensor.bytes));
  // Head 1 of 8 rows: pair 3 is rows 8 + 6 and 8 + 7 interleaved, rows 8 + 3 and 8 + 7 split.
  EXPECT_EQ(row_of(ours, 11), row_of(theirs, 14));
  EXPECT_EQ(row_of(ours, 15), row_of(theirs, 15));
}

TEST_F(hf_directories, vectors_of_any_float_type_become_f32) {
  const std::vector<std::byte> ones_and_twos = {std::byte{0x80}, std::byte{0x3f}, std::byte{0x00},
                                                std::byte{0x40}};
  model_config config;
  config.vocab_size = 3;
  config.context_length = 4;
  config.hidden_size = 2;
  config.num_layers = 0;
  config.tied_embeddings = true;
  const std::vector<std::byte> embedding(3 * 2 * 2);
  const auto make = [&](tensor_type type, const std::vector<std::byte>& norm) {
    const std::vector<weight_view> tensors = {
        {"model.norm.weight", {type, 1, 2, norm}},
        {"model.embed_tokens.weight", {tensor_type::f16, 3, 2, embedding}}};
    auto weights = weights_source::make(config, tensors, tensor_naming::hugging_face, nullptr, "x");
    EXPECT_TRUE(weights) << weights.error().message();
    return weights;
  };
  EXPECT_THAT(make(tensor_type::bf16, ones_and_twos)->at(tensor_role::output_norm).floats(),
              ElementsAre(1, 2));
  // float16: 1.5, and 2^-24, the smallest subnormal number.
  const std::vector<std::byte> halves = {std::byte{0x00}, std::byte{0x3e}, std::byte{0x01}, std::byte{0x00}};
  EXPECT_THAT(make(tensor_type::f16, halves)->at(tensor_role::output_norm).floats(),
              ElementsAre(1.5, 0x1p-24F));
  config.arch = architecture::gemma3;
  EXPECT_THAT(make(tensor_type::bf16, ones_and_twos)->at(tensor_role::output_norm).floats(),
              ElementsAre(2, 3));
}

TEST_F(hf_directories, a_module_for_multi_token_prediction_is_left_to_drafters) {
  model_config config;
  config.vocab_size = 3;
  config.context_length = 4;
  config.hidden_size = 2;
  config.num_layers = 0;
  config.tied_embeddings = true;
  const std::vector<std::byte> values(3 * 2 * 2);
  const auto make = [&](const char* name) {
    const std::vector<weight_view> tensors = {
        {name, {tensor_type::f16, 1, 2, {values.data(), 4}}},
        {"model.norm.weight", {tensor_type::f16, 1, 2, {values.data(), 4}}},
        {"model.embed_tokens.weight", {tensor_type::f16, 3, 2, values}}};
    return weights_source::make(config, tensors, tensor_naming::hugging_face, nullptr, "x");
  };
  EXPECT_THAT(make("mtp.fc.weight").error().message(), HasSubstr("'mtp.fc.weight' has no meaning"));
  config.arch = architecture::qwen35;
  for (const char* const name : {"mtp.fc.weight", "model.mtp.fc.weight", "language_model.mtp.fc.weight",
                                 "model.language_model.mtp.fc.weight"}) {
    const auto weights = make(name);
    ASSERT_TRUE(weights) << weights.error().message() << ", also if the config does not name a module";
    EXPECT_EQ(weights->num_mtp_tensors(), 1U);
  }
  config.tied_embeddings = false;
  EXPECT_THAT(make("model.language_model.mtp.fc.weight").error().message(),
              HasSubstr("tensor 'lm_head.weight' is missing"));
}

TEST_F(hf_directories, shards_open_by_their_index) {
  test::write_tiny_hf({.arch = architecture::qwen2}, directory_, 3);
  const auto directory = hf_directory::open(directory_);
  ASSERT_TRUE(directory) << directory.error().message();
  EXPECT_EQ(directory->shards.size(), 3U);
  EXPECT_TRUE(read_hf_weights(*directory));
}

TEST_F(hf_directories, an_index_that_lies_is_refused) {
  test::write_tiny_hf({}, directory_, 2);
  const auto index = directory_ / "model.safetensors.index.json";
  write_text(index, R"({"weight_map":{"a":"../model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(problem(), HasSubstr("must name a .safetensors file of this directory"));
  write_text(index, R"({"weight_map":{"a":"model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(problem(), HasSubstr("is not listed for this file"));
  write_text(index, R"({"weight_map":{}})");
  EXPECT_THAT(problem(), HasSubstr("lists no tensor"));
  write_text(index, R"({"weight_map":{"a":"model-00009-of-00002.safetensors"}})");
  EXPECT_THAT(problem(), HasSubstr("No such file"));
  write_text(index, R"({"metadata":{}})");
  EXPECT_THAT(problem(), HasSubstr("'weight_map' is missing"));
}

TEST_F(hf_directories, tensors_are_checked_against_the_config) {
  test::write_tiny_hf({}, directory_);
  EXPECT_EQ(problem(), "was accepted");
  auto options = test::tiny_model{};
  options.ffn_size = 32;
  write_text(directory_ / "config.json", test::tiny_hf_config(options));
  EXPECT_THAT(problem(), HasSubstr("must have the shape [32][32], has [64][32]"));
  write_text(directory_ / "config.json", test::tiny_hf_config({.tied_embeddings = false}));
  EXPECT_THAT(problem(), HasSubstr("'lm_head.weight' is missing"));
  write_text(directory_ / "config.json", test::tiny_hf_config({.num_layers = 3}));
  EXPECT_THAT(problem(), HasSubstr("a model of 3 layers needs 27 tensors"));
}

TEST_F(hf_directories, a_stored_head_that_differs_from_the_embedding_is_the_head) {
  const test::tiny_model tied, untied{.tied_embeddings = false};
  for (const std::string prefix : {"", "language_model."})
    for (const bool equal : {false, true}) {
      test::write_tiny_hf(untied, folder_ / "whole");
      const auto whole = safetensors_file::open(folder_ / "whole" / "model.safetensors");
      test::safetensors_builder builder;
      std::vector<std::byte> head;
      for (const auto& tensor : whole->tensors()) {
        ASSERT_TRUE(whole->from()->read(tensor.data));
        std::vector<std::byte> data(tensor.data.begin(), tensor.data.end());
        if (tensor.name == "model.embed_tokens.weight") head = data;
        if (tensor.name == "lm_head.weight") continue;
        builder.add(prefix + tensor.name, "F32",
                    {tensor.shape.begin(), tensor.shape.begin() + tensor.num_dims}, data);
      }
      if (!equal) head.back() ^= std::byte{1};
      builder.add(prefix + "lm_head.weight", "F32", {288, 32}, head);
      std::filesystem::create_directories(directory_);
      write_text(directory_ / "config.json", test::tiny_hf_config(tied));
      test::write_bytes(directory_ / "model.safetensors", builder.build());
      const auto opened = hf_directory::open(directory_);
      ASSERT_TRUE(opened) << opened.error().message();
      EXPECT_EQ(opened->config.tied_embeddings, equal);
      const auto weights = read_hf_weights(*opened);
      ASSERT_TRUE(weights) << weights.error().message();
      const auto bytes = weights->at(tensor_role::output).tensor.bytes;
      ASSERT_TRUE(weights->read(bytes));
      EXPECT_TRUE(std::ranges::equal(bytes, head));
    }
}

TEST_F(hf_directories, tokenizer_settings_are_read) {
  test::write_tiny_hf({}, directory_);
  write_text(directory_ / "tokenizer.json", "{}");
  write_text(directory_ / "generation_config.json", R"({"eos_token_id":[7,1,5]})");
  write_text(directory_ / "tokenizer_config.json",
             R"({"bos_token":"<s>","eos_token":{"content":"</s>","special":true},
    "unk_token":null,"add_bos_token":true,"chat_template":"{{ 1 }}"})");
  auto opened = hf_directory::open(directory_);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_THAT(opened->eos_ids, ElementsAre(token_id{1}, token_id{5}, token_id{7}));
  const auto& tokenizer = opened->tokenizer;
  EXPECT_EQ(tokenizer.tokenizer_json, directory_ / "tokenizer.json");
  EXPECT_EQ(tokenizer.bos_token, "<s>");
  EXPECT_EQ(tokenizer.eos_token, "</s>");
  EXPECT_EQ(tokenizer.unk_token, std::nullopt);
  EXPECT_EQ(tokenizer.add_bos, true);
  EXPECT_EQ(tokenizer.add_eos, std::nullopt);
  EXPECT_EQ(tokenizer.chat_template, "{{ 1 }}");
  write_text(directory_ / "chat_template.jinja", "{{ 2 }}");
  EXPECT_EQ(hf_directory::open(directory_)->tokenizer.chat_template, "{{ 2 }}");
}

TEST_F(hf_directories, several_templates_have_a_default) {
  test::write_tiny_hf({}, directory_);
  const auto config = directory_ / "tokenizer_config.json";
  write_text(config,
             R"({"chat_template":[{"name":"rag","template":"r"},{"name":"default","template":"d"}]})");
  EXPECT_EQ(hf_directory::open(directory_)->tokenizer.chat_template, "d");
  for (const auto* value : {R"([])", R"([{"name":"rag","template":"r"}])", R"([1])", "3"}) {
    write_text(config, R"({"chat_template":)" + std::string(value) + "}");
    EXPECT_THAT(problem(), HasSubstr("'chat_template' must be"));
  }
}

TEST_F(hf_directories, a_template_may_stand_in_the_processors_file) {
  test::write_tiny_hf({}, directory_);
  const auto older = directory_ / "chat_template.json";
  write_text(older, R"({"chat_template":"{{ 1 }}"})");
  EXPECT_EQ(hf_directory::open(directory_)->tokenizer.chat_template, "{{ 1 }}");
  write_text(older, R"({"chat_template":1})");
  EXPECT_THAT(problem(), HasSubstr("chat_template.json: key 'chat_template' must be"));
  write_text(directory_ / "tokenizer_config.json", R"({"chat_template":"{{ 2 }}"})");
  EXPECT_EQ(hf_directory::open(directory_)->tokenizer.chat_template, "{{ 2 }}")
      << "the tokenizer's own is first";
  write_text(directory_ / "chat_template.jinja", "{{ 3 }}");
  EXPECT_EQ(hf_directory::open(directory_)->tokenizer.chat_template, "{{ 3 }}");
}

TEST_F(hf_directories, wrong_side_files_are_named) {
  test::write_tiny_hf({}, directory_);
  for (const auto* ids : {"[288]", "-1", "\"1\"", "[1,null]", "1.5"}) {
    write_text(directory_ / "generation_config.json", R"({"eos_token_id":)" + std::string(ids) + "}");
    EXPECT_THAT(problem(), HasSubstr("generation_config.json: key 'eos_token_id' must hold ids of 0 to 287"))
        << ids;
  }
  std::filesystem::remove(directory_ / "generation_config.json");
  write_text(directory_ / "tokenizer_config.json", R"({"bos_token":3})");
  EXPECT_THAT(problem(), HasSubstr("tokenizer_config.json: key 'bos_token'"));
  std::filesystem::remove(directory_ / "config.json");
  EXPECT_THAT(problem(), HasSubstr("config.json: cannot open"));
  write_text(directory_ / "adapter_config.json", "{}");
  EXPECT_THAT(problem(), HasSubstr("LoRA adapter"));
}

} // namespace
} // namespace paceline::model
