// Qwen3.5's files: which layers have attention, the heads of the others, modules that the model does without,
// and files that contradict themselves.
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace paceline::model::qwen35_test {
namespace {

using test::gguf_builder;
using test::make_tiny_gguf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr layer_kind rule = layer_kind::gated_delta, attention = layer_kind::attention;

std::string refusal(const gguf_builder& builder) { return test::problem(builder).message(); }

gguf_builder tiny() { return make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4}); }

gguf_builder tiny_with(const std::string& key, std::uint32_t value) {
  return tiny().remove("qwen35." + key).set_uint32("qwen35." + key, value);
}

TEST(qwen35_gguf, layers_have_attention_at_an_interval) {
  const auto config = open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_THAT(config->layer_kinds, ElementsAre(rule, attention, rule, attention));
  EXPECT_EQ(config->delta.num_keys, 2U);
  EXPECT_EQ(config->delta.num_values, 4U);
  EXPECT_EQ(config->delta.key_dim, 8U);
  EXPECT_EQ(config->delta.value_dim, 8U);
  EXPECT_TRUE(config->delta.tiled) << "the converter's order of value heads";
  EXPECT_TRUE(config->attention_gate);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_EQ(config->conv.num_taps, 3U);
  EXPECT_EQ(config->rotary_dim, 4U);
  EXPECT_EQ(config->num_mtp_modules, 0U);
}

TEST(qwen35_gguf, layers_with_attention_may_be_listed) {
  const std::string interval = "qwen35.full_attention_interval", list = "qwen35.attention.recurrent_layers";
  EXPECT_THAT(refusal(tiny().remove(interval).set_bools(list, {true, false, true, false})),
              HasSubstr("accepted"));
  EXPECT_THAT(refusal(tiny().remove(interval).set_bools(list, {true, false})),
              HasSubstr("must have one element for each of the 4 layers"));
  EXPECT_THAT(refusal(tiny().remove(interval)), HasSubstr("needs 53 tensors in them, the file has 52"))
      << "without both every fourth layer has attention";
}

/// With the numbers of KV heads as a list.
gguf_builder with_heads(const std::vector<std::int32_t>& numbers) {
  return tiny().set_int32s("qwen35.attention.head_count_kv", numbers);
}

TEST(qwen35_gguf, layers_without_kv_heads_are_those_without_attention) {
  const auto listed = open(with_heads({0, 2, 0, 2}));
  ASSERT_TRUE(listed) << listed.error().message() << ", as Ollama's converter has it";
  EXPECT_EQ(listed->num_kv_heads, 2U);
  EXPECT_THAT(listed->layer_kinds, ElementsAre(rule, attention, rule, attention));
  const auto alone = open(with_heads({0, 2, 0, 2}).remove("qwen35.full_attention_interval"));
  ASSERT_TRUE(alone) << alone.error().message() << ", where nothing else tells the kinds";
  EXPECT_THAT(alone->layer_kinds, ElementsAre(rule, attention, rule, attention));
  EXPECT_EQ(refusal(with_heads({2, 2, 2, 2})), "was accepted") << "for all layers, whatever their kind";
  EXPECT_THAT(refusal(with_heads({0, 2, 0, 1})), HasSubstr("differs between layers with attention"));
  EXPECT_THAT(refusal(with_heads({0, 2, 2, 0})),
              HasSubstr("head_count_kv' is 2 for layer 2, which has no attention"));
  EXPECT_THAT(refusal(with_heads({0, 2, 0, 0})),
              HasSubstr("head_count_kv' is 0 for layer 3, which has attention"));
  EXPECT_THAT(refusal(with_heads({0, 0, 0, 0})), HasSubstr("head_count_kv"));
  auto with_module = make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4, .mtp_module = true});
  with_module.set_int32s("qwen35.attention.head_count_kv", std::vector<std::int32_t>{0, 2, 0, 2, 2});
  EXPECT_EQ(refusal(with_module), "was accepted");
}

TEST(qwen35_gguf, value_heads_are_in_the_order_that_the_file_says) {
  const std::string key = "qwen35.ssm.v_head_reordered";
  EXPECT_TRUE(open(tiny().set_bool(key, true))->delta.tiled);
  EXPECT_FALSE(open(tiny().set_bool(key, false))->delta.tiled);
}

TEST(qwen35_gguf, ollamas_names_of_tensors_are_known) {
  auto file = tiny();
  for (const char* const layer : {"blk.0.", "blk.2."})
    file.rename_tensor(std::string(layer) + "ssm_dt.bias", std::string(layer) + "ssm_dt");
  EXPECT_EQ(refusal(file), "was accepted");
  const std::vector<std::byte> values(32 * sizeof(float));
  file.add_tensor("mtp.norm.weight", device::tensor_type::f32, {32}, values);
  EXPECT_EQ(refusal(file), "was accepted") << "a module that no drafter reads is skipped";
  EXPECT_EQ(open(file)->num_mtp_modules, 0U);
  EXPECT_THAT(refusal(file.add_tensor("blk.2.ssm_dt.bias", device::tensor_type::f32, {4},
                                      std::vector<std::byte>(4 * sizeof(float)))),
              HasSubstr("occurs twice"));
}

gguf_builder with_module() {
  return make_tiny_gguf({.arch = architecture::qwen35, .num_layers = 4, .mtp_module = true});
}

TEST(qwen35_gguf, a_module_for_multi_token_prediction_is_not_part_of_the_model) {
  const auto config = open(with_module());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->num_layers, 4U);
  EXPECT_EQ(config->num_mtp_modules, 1U);
  EXPECT_THAT(config->layer_kinds, ElementsAre(rule, attention, rule, attention));
  auto without_key = with_module();
  without_key.remove("qwen35.nextn_predict_layers");
  EXPECT_NE(refusal(without_key), "was accepted");
  auto only_modules = with_module();
  only_modules.remove("qwen35.nextn_predict_layers").set_uint32("qwen35.nextn_predict_layers", 5);
  EXPECT_THAT(refusal(only_modules), HasSubstr("nextn_predict_layers' must be below block_count"));
}

TEST(qwen35_gguf, refuses_what_does_not_fit) {
  EXPECT_THAT(refusal(tiny_with("full_attention_interval", 0)), HasSubstr("must be at least 1"));
  EXPECT_THAT(refusal(tiny_with("full_attention_interval", 9)),
              HasSubstr("must have a layer with attention"));
  EXPECT_THAT(refusal(tiny_with("ssm.inner_size", 31)),
              HasSubstr("ssm.inner_size' must be a multiple of ssm.time_step_rank, 4"));
  EXPECT_THAT(refusal(tiny_with("ssm.group_count", 3)),
              HasSubstr("num_values 4 must be a multiple of num_keys 3"));
  EXPECT_THAT(refusal(tiny_with("ssm.group_count", 0)), HasSubstr("num_keys must be 1"));
  EXPECT_THAT(refusal(tiny_with("ssm.conv_kernel", 1)), HasSubstr("num_taps must be 2 to 16"));
  EXPECT_THAT(refusal(tiny_with("rope.dimension_count", 3)), HasSubstr("rope.dimension_count' must be even"));
  EXPECT_THAT(refusal(tiny_with("rope.dimension_count", 10)), HasSubstr("2 to the size of a head, 8"));
  EXPECT_THAT(refusal(tiny().remove("qwen35.ssm.state_size")), HasSubstr("ssm.state_size"));
  EXPECT_THAT(refusal(tiny().remove_tensor("blk.2.ssm_a")), HasSubstr("'blk.2.ssm_a' is missing"));
  EXPECT_THAT(refusal(tiny_with("ssm.state_size", 16)),
              HasSubstr("attn_qkv.weight' must have the shape [96][32], has [64][32]"));
  EXPECT_THAT(refusal(tiny_with("ssm.inner_size", 64)),
              HasSubstr("attn_qkv.weight' must have the shape [96][32], has [64][32]"));
}

TEST(qwen3next_gguf, queries_keys_values_and_gates_may_be_in_one_tensor) {
  auto file = make_tiny_gguf({.arch = architecture::qwen3next, .num_layers = 4});
  EXPECT_FALSE(open(file)->packing.fuses_gate);
  for (const std::string layer : {"blk.0.", "blk.2."}) {
    file.remove_tensor(layer + "attn_qkv.weight").remove_tensor(layer + "attn_gate.weight");
    file.add_tensor(layer + "ssm_in.weight", device::tensor_type::f32, {32, 64 + 32},
                    std::vector<std::byte>(32 * 96 * sizeof(float)));
  }
  const auto config = open(file);
  ASSERT_TRUE(config) << config.error().message() << ", as llama.cpp wrote it in 2025";
  EXPECT_TRUE(config->packing.fuses_gate);
  EXPECT_THAT(refusal(file.remove_tensor("blk.2.ssm_in.weight")),
              HasSubstr("'blk.2.ssm_in.weight' is missing"));
}

expected<model_config> read(const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":"qwen3_5_text","vocab_size":288,
      "max_position_embeddings":64,"hidden_size":32,"num_hidden_layers":4,"num_attention_heads":4,
      "num_key_value_heads":2,"head_dim":16,"intermediate_size":300})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read(extra)); }

TEST(qwen35_hf, settings_have_the_defaults_of_their_class) {
  const auto config = read();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_THAT(config->layer_kinds, ElementsAre(rule, rule, rule, attention));
  EXPECT_EQ(config->delta.num_keys, 16U);
  EXPECT_EQ(config->delta.num_values, 32U);
  EXPECT_EQ(config->delta.key_dim, 128U);
  EXPECT_FALSE(config->delta.tiled);
  EXPECT_EQ(config->rotary_dim, 4U) << "a quarter";
  EXPECT_EQ(config->rope.theta, 1e4);
  EXPECT_EQ(config->conv.num_taps, 4U);
}

TEST(qwen35_hf, the_rotated_share_is_that_of_the_rotary_settings_that_count) {
  const std::string half = R"("partial_rotary_factor":0.5)", whole = R"("partial_rotary_factor":1.0)";
  const auto settings = [](const char* key, const std::string& more) {
    return "\"" + std::string(key) + R"(":{"rope_type":"linear","factor":2)" + more + "},";
  };
  EXPECT_EQ(read(settings("rope_parameters", "," + half) + whole + ",")->num_rotated(), 8U);
  EXPECT_EQ(
      read(settings("rope_scaling", "," + half) + settings("rope_parameters", "," + whole))->num_rotated(),
      8U);
  EXPECT_EQ(read(settings("rope_scaling", "") + settings("rope_parameters", "," + whole) + half + ",")
                ->num_rotated(),
            8U);
  EXPECT_EQ(read(settings("rope_scaling", "") + settings("rope_parameters", "," + whole))->num_rotated(), 4U)
      << "the class's: the settings that do not count have no say";
}

TEST(qwen35_hf, layers_and_rotation_are_read) {
  const std::string types =
      R"("layer_types":["full_attention","linear_attention","linear_attention","full_attention"],)";
  EXPECT_THAT(read(types)->layer_kinds, ElementsAre(attention, rule, rule, attention));
  EXPECT_THAT(read(R"("full_attention_interval":2,)")->layer_kinds,
              ElementsAre(rule, attention, rule, attention));
  EXPECT_EQ(read(R"("rope_parameters":{"rope_type":"default","rope_theta":1e7,"partial_rotary_factor":0.5,
      "mrope_section":[1,1,0],"mrope_interleaved":true},)")
                ->rotary_dim,
            8U);
  EXPECT_EQ(read(R"("mtp_num_hidden_layers":1,)")->num_mtp_modules, 1U);
  EXPECT_THAT(problem(R"("layer_types":["full_attention"],)"), HasSubstr("for each of the 4 layers, has 1"));
  EXPECT_THAT(problem(R"("layer_types":["full_attention","mamba","mamba","mamba"],)"),
              HasSubstr("'linear_attention' and 'full_attention' only"));
  EXPECT_THAT(problem(R"("full_attention_interval":0,)"), HasSubstr("must be at least 1"));
  for (const char* const share : {"0.05", "0", "1.5", "0.2"})
    EXPECT_THAT(problem(R"("partial_rotary_factor":)" + std::string(share) + ","),
                HasSubstr("leave an even number"));
  EXPECT_THAT(problem(R"("output_gate_type":"tanh",)"), HasSubstr("output_gate_type"));
  EXPECT_THAT(problem(R"("attention_bias":true,)"), HasSubstr("attention_bias' must be false"));
  EXPECT_THAT(problem(R"("linear_key_head_dim":130,)"), HasSubstr("key_dim must be a multiple of 4"));
  EXPECT_THAT(problem(R"("linear_num_value_heads":5,)"), HasSubstr("must be a multiple of num_keys"));
}

} // namespace
} // namespace paceline::model::qwen35_test
