// LFM2's files: which layers have attention, their sizes and names, and files that contradict themselves.
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace paceline::model::lfm2_test {
namespace {

using test::gguf_builder;
using test::make_tiny_gguf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const gguf_builder& builder) { return test::problem(builder).message(); }

gguf_builder tiny(architecture arch = architecture::lfm2) {
  return make_tiny_gguf({.arch = arch, .num_layers = 4});
}

TEST(lfm2_gguf, layers_without_kv_heads_have_a_convolution) {
  const auto config = open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_THAT(config->layer_kinds, ElementsAre(layer_kind::short_conv, layer_kind::attention,
                                               layer_kind::short_conv, layer_kind::attention));
  EXPECT_EQ(config->num_kv_heads, 2U);
  EXPECT_EQ(config->conv.num_taps, 3U);
  EXPECT_FALSE(config->conv.bias);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_EQ(config->num_expert_layers(), 0U);
}

TEST(lfm2_gguf, experts_are_routed_by_sigmoids_with_a_bias) {
  const auto config = open(tiny(architecture::lfm2moe));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->experts.routing.gating, device::expert_gating::sigmoid);
  EXPECT_FLOAT_EQ(config->experts.routing.divisor_epsilon, 1e-6F);
  EXPECT_TRUE(config->experts.selection_bias);
  EXPECT_THAT(config->experts.layers, ElementsAre(true, false, true, true));
}

TEST(lfm2_gguf, a_tensor_of_a_layer_that_the_model_has_not_is_refused) {
  for (const std::string name : {"blk.4.attn_q.weight", "blk.4000000000.attn_q.weight"})
    EXPECT_THAT(refusal(tiny().add_tensor(name, device::tensor_type::f32, {32, 32},
                                          std::vector<std::byte>(std::size_t{32} * 32 * 4))),
                HasSubstr("of a model with 4 layers"));
}

TEST(lfm2_gguf, ollamas_name_of_the_final_norm_is_known) {
  auto file = tiny();
  file.rename_tensor("token_embd_norm.weight", "output_norm.weight");
  EXPECT_EQ(refusal(file), "was accepted");
  EXPECT_THAT(refusal(file.remove_tensor("output_norm.weight")),
              HasSubstr("'token_embd_norm.weight' is missing"));
}

TEST(lfm2_gguf, the_feed_forward_size_may_be_stated_as_before_its_adjustment) {
  const auto config = open(tiny().set_uint32("lfm2.feed_forward_length", 96));
  ASSERT_TRUE(config) << config.error().message() << ", as Ollama's converter has it";
  EXPECT_EQ(config->ffn_size, 64U);
  EXPECT_THAT(refusal(tiny().set_uint32("lfm2.feed_forward_length", 97)),
              HasSubstr("must have the shape [97][32], has [64][32]"))
      << "two thirds are more";
  EXPECT_THAT(refusal(tiny(architecture::lfm2moe).set_uint32("lfm2moe.feed_forward_length", 96)),
              HasSubstr("must have the shape [96][32], has [64][32]"));
}

TEST(lfm2_gguf, a_bias_that_selects_experts_is_finite) {
  const std::string name = "blk.2.exp_probs_b.bias";
  const auto with_bias = [&](float value) {
    std::vector<float> values(8, 0.5F);
    values[3] = value;
    const auto bytes = std::as_bytes(std::span(values));
    return refusal(tiny(architecture::lfm2moe)
                       .remove_tensor(name)
                       .add_tensor(name, device::tensor_type::f32, {8}, {bytes.begin(), bytes.end()}));
  };
  EXPECT_EQ(with_bias(-1e30F), "was accepted");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
    EXPECT_THAT(with_bias(value), HasSubstr("'" + name + "' must hold finite values")) << value;
}

TEST(lfm2_gguf, refuses_what_does_not_fit) {
  const std::string kv_heads = "lfm2.attention.head_count_kv";
  const auto with_heads = [&](const std::vector<std::int32_t>& numbers) {
    return refusal(tiny().remove(kv_heads).set_int32s(kv_heads, numbers));
  };
  EXPECT_THAT(with_heads({0, 2, 0}), HasSubstr("must have one element for each of the 4 layers"));
  EXPECT_THAT(with_heads({0, 2, 0, 1}), HasSubstr("differs between layers with attention"));
  EXPECT_THAT(with_heads({0, -2, 0, 2}), HasSubstr("is -2 for layer 1"));
  EXPECT_THAT(with_heads({0, 0, 0, 0}), HasSubstr("num_kv_heads"));
  EXPECT_THAT(with_heads({2, 2, 2, 2}), HasSubstr("needs 44 tensors in them, the file has 40"));
  EXPECT_THAT(with_heads({2, 0, 2, 0}), HasSubstr("shortconv.in_proj.weight' has no meaning"))
      << "the tensors are those of the other layers";
  EXPECT_THAT(refusal(tiny().remove(kv_heads)), HasSubstr("head_count_kv"));
  EXPECT_THAT(refusal(tiny().remove("lfm2.shortconv.l_cache")), HasSubstr("shortconv.l_cache"));
  for (const std::uint32_t taps : {1U, 17U})
    EXPECT_THAT(refusal(tiny().remove("lfm2.shortconv.l_cache").set_uint32("lfm2.shortconv.l_cache", taps)),
                HasSubstr("num_taps must be 2 to 16"));
  EXPECT_THAT(refusal(tiny().remove("lfm2.shortconv.l_cache").set_uint32("lfm2.shortconv.l_cache", 4)),
              HasSubstr("blk.0.shortconv.conv.weight' must have the shape [32][4], has [32][3]"));
  EXPECT_THAT(refusal(tiny().remove_tensor("blk.2.shortconv.out_proj.weight")),
              HasSubstr("'blk.2.shortconv.out_proj.weight' is missing"));
  EXPECT_THAT(refusal(tiny().set_uint32("lfm2.attention.sliding_window", 64)),
              HasSubstr("sliding_window' must be 0"));
  EXPECT_THAT(refusal(tiny(architecture::lfm2moe).set_uint32("lfm2moe.expert_gating_func", 1)),
              HasSubstr("expert_gating_func' must be 2"));
}

expected<model_config> read(std::string_view model_type, const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":")" + std::string(model_type) +
                           R"(","vocab_size":288,"max_position_embeddings":64,"hidden_size":32,
      "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":300,"norm_eps":2e-5})";
  return test::read_hf(text);
}

std::string problem(std::string_view model_type, const std::string& extra) {
  return test::refusal_of(read(model_type, extra));
}

TEST(lfm2_hf, layers_are_named_or_numbered) {
  const std::string types = R"("layer_types":["conv","full_attention","conv","conv"],)";
  const auto expected_kinds = ElementsAre(layer_kind::short_conv, layer_kind::attention,
                                          layer_kind::short_conv, layer_kind::short_conv);
  EXPECT_THAT(read("lfm2", types)->layer_kinds, expected_kinds);
  EXPECT_THAT(read("lfm2", R"("full_attn_idxs":[1],)")->layer_kinds, expected_kinds);
  EXPECT_THAT(read("lfm2_moe", types)->layer_kinds, expected_kinds);
  EXPECT_TRUE(read("lfm2")->has_attention(3)) << "without both all layers have attention";
  EXPECT_THAT(problem("lfm2", R"("layer_types":["conv","full_attention"],)"),
              HasSubstr("for each of the 4 layers, has 2"));
  EXPECT_THAT(problem("lfm2", R"("layer_types":["conv","full_attention","mamba","conv"],)"),
              HasSubstr("'conv' and 'full_attention' only"));
  EXPECT_THAT(problem("lfm2", R"("full_attn_idxs":[4],)"), HasSubstr("must hold numbers of layers"));
  EXPECT_THAT(problem("lfm2", R"("full_attn_idxs":[],)"), HasSubstr("a layer with attention"));
}

TEST(lfm2_hf, the_feed_forward_size_is_adjusted_as_its_class_does) {
  EXPECT_EQ(read("lfm2")->ffn_size, 256U); // 200, to a multiple of 256
  EXPECT_EQ(read("lfm2", R"("block_multiple_of":32,)")->ffn_size, 224U);
  EXPECT_EQ(read("lfm2", R"("block_multiple_of":32,"block_ffn_dim_multiplier":1.3,)")->ffn_size, 288U);
  EXPECT_EQ(read("lfm2", R"("block_ffn_dim_multiplier":null,)")->ffn_size, 200U);
  EXPECT_EQ(read("lfm2", R"("block_auto_adjust_ff_dim":false,)")->ffn_size, 300U);
  EXPECT_EQ(read("lfm2", R"("block_ff_dim":600,"block_auto_adjust_ff_dim":false,)")->ffn_size, 600U);
  EXPECT_EQ(read("lfm2_moe")->ffn_size, 300U) << "never of a mixture";
  const auto first = test::read_hf(R"({"model_type":"lfm2","vocab_size":288,"max_position_embeddings":64,
      "hidden_size":32,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"block_ff_dim":300,
      "block_multiple_of":256,"block_ffn_dim_multiplier":1.0,"block_auto_adjust_ff_dim":true})");
  ASSERT_TRUE(first) << first.error().message() << ", as LFM2-1.2B's first config has it";
  EXPECT_EQ(first->ffn_size, 256U);
  EXPECT_THAT(problem("lfm2", R"("block_multiple_of":0,)"), HasSubstr("must be at least 1"));
  EXPECT_THAT(problem("lfm2", R"("block_ffn_dim_multiplier":1e9,)"), HasSubstr("block_ffn_dim_multiplier"));
}

TEST(lfm2_hf, settings_have_the_defaults_of_its_classes) {
  const auto dense = read("lfm2");
  ASSERT_TRUE(dense) << dense.error().message();
  EXPECT_FLOAT_EQ(dense->norm_epsilon, 2e-5F);
  EXPECT_EQ(dense->rope.theta, 1e6);
  EXPECT_TRUE(dense->tied_embeddings);
  EXPECT_FALSE(read("lfm2", R"("tie_embedding":false,)")->tied_embeddings);
  EXPECT_FALSE(dense->conv.bias);
  const auto mixture = read("lfm2_moe", R"("num_experts_per_tok":3,)");
  ASSERT_TRUE(mixture) << mixture.error().message();
  EXPECT_EQ(mixture->experts.routing.num_experts, 32U);
  EXPECT_TRUE(mixture->experts.routing.normalised);
  EXPECT_TRUE(mixture->experts.selection_bias);
  EXPECT_THAT(mixture->experts.layers, ElementsAre(false, false, true, true));
  EXPECT_FALSE(read("lfm2_moe", R"("use_expert_bias":false,)")->experts.selection_bias);
}

} // namespace
} // namespace paceline::model::lfm2_test
