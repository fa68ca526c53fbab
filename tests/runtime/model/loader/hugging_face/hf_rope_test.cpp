// Rotary settings as transformers 5.24 reads them, where a config may state them in several places or its
// class ignores them.
#include "runtime/model/loader/hugging_face/hf_rope.hpp"
#include "tests/support/opened_hf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace paceline::model::hf_rope_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A complete config of `model_type` for 64 positions, with `extra` members in front.
expected<model_config> read(std::string_view model_type, const std::string& extra = "") {
  const std::string text =
      "{" + extra + R"("model_type":")" + std::string(model_type) +
      R"(","vocab_size":288,"max_position_embeddings":64,"hidden_size":32,"num_hidden_layers":4,
         "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,"rms_norm_eps":1e-5})";
  return test::read_hf(text);
}

std::string problem(std::string_view model_type, const std::string& extra) {
  return test::refusal_of(read(model_type, extra));
}

std::string scaled(const std::string& kind, const std::string& more = "") {
  return R"("rope_scaling":{"rope_type":")" + kind + R"(","factor":4.0,"low_freq_factor":1.0,
            "high_freq_factor":4.0)" +
         more + "},";
}

TEST(hf_rope, the_configs_own_original_context_counts) {
  const std::string own = R"("original_max_position_embeddings":24,)",
                    inner = R"(,"original_max_position_embeddings":32)";
  for (const char* const kind : {"yarn", "llama3"}) {
    const auto original = [&](const std::string& extra) {
      const auto config = read("llama", extra);
      return config ? config->rope.scaling.original_context_length : 0;
    };
    EXPECT_EQ(original(own + scaled(kind, inner)), 24U) << kind;
    EXPECT_EQ(original(own + scaled(kind)), 24U) << kind;
    EXPECT_EQ(original(scaled(kind, inner)), 32U) << kind;
    EXPECT_EQ(original(scaled(kind)), 64U) << kind;
  }
  const auto grown = read("ministral3", own + scaled("yarn", inner + R"(,"llama_4_scaling_beta":0.1)"));
  ASSERT_TRUE(grown) << grown.error().message();
  EXPECT_EQ(grown->growth.period, 24U);
  EXPECT_EQ(grown->rope.scaling.original_context_length, 24U);
}

TEST(hf_rope, the_settings_of_a_kind_of_layers_have_their_own_original_context) {
  const auto config = read("olmo3", R"("original_max_position_embeddings":24,"rope_parameters":{
      "full_attention":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32},
      "sliding_attention":{"rope_type":"default"}},)");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.original_context_length, 32U);
}

TEST(hf_rope, settings_of_one_kind_of_layers_are_not_those_of_all) {
  const auto config = read("olmo3", R"("rope_parameters":{
      "sliding_attention":{"rope_type":"linear","factor":2.0,"rope_theta":700.0}},)");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::none);
  EXPECT_EQ(config->local_rope.scaling.factor, 2);
  EXPECT_EQ(config->local_rope.theta, 700);
}

TEST(hf_rope, yarn_without_a_factor_extends_to_the_stated_context) {
  const auto config = read("llama", R"("rope_scaling":{"rope_type":"yarn","factor":null,
      "original_max_position_embeddings":16},)");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.factor, 4);
}

TEST(hf_rope, classes_that_rotate_whole_heads_ignore_a_share) {
  const std::string half = R"("partial_rotary_factor":0.5,)";
  for (const char* const type : {"llama", "qwen2", "granite", "olmo2", "lfm2", "mistral"}) {
    const auto config = read(type, half);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->num_rotated(), config->head_dim) << type;
  }
  EXPECT_EQ(read("phi3", half)->num_rotated(), 4U);
  EXPECT_EQ(read("qwen3_5_text", half + R"("head_dim":16,)")->num_rotated(), 8U);
  EXPECT_THAT(problem("llama", half + scaled("linear")), HasSubstr("'partial_rotary_factor' must be 1"));
}

TEST(hf_rope, phi3_called_longrope_yarn_once) {
  const std::string lists = R"(,"short_factor":[1,2,3,4],"long_factor":[2,3,4,5])";
  for (const char* const kind : {"longrope", "su", "yarn"}) {
    const auto config = read("phi3", R"("original_max_position_embeddings":32,"rope_scaling":{"type":")" +
                                         std::string(kind) + "\"" + lists + "},");
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_THAT(config->rope.frequency_divisors, ElementsAre(2, 3, 4, 5)) << kind;
  }
  EXPECT_THAT(problem("olmo3", R"("rope_parameters":{"full_attention":{"rope_type":"longrope"},
      "sliding_attention":{"rope_type":"default"}},)"),
              HasSubstr("with one rotation for all layers, longrope"));
}

TEST(hf_config, what_a_class_ignores_is_ignored) {
  const auto windows = read("qwen3_moe", R"("use_sliding_window":true,"sliding_window":9,"num_experts":4,
      "num_experts_per_tok":2,"moe_intermediate_size":16,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],)");
  ASSERT_TRUE(windows) << windows.error().message();
  EXPECT_THAT(windows->local_layers, ElementsAre(true, true, true, true));
  const auto gemma = read("gemma3_text", R"("sliding_window":16,"_sliding_window_pattern":2,)");
  EXPECT_THAT(gemma->local_layers, ElementsAre(true, true, true, true)) << "every sixth layer has none";
  EXPECT_FALSE(read("phi3", R"("attention_bias":true,)")->qkv_bias);
  const auto experts =
      read("qwen3_5_moe_text", R"("mlp_only_layers":[0],"decoder_sparse_step":2,"head_dim":16,)");
  ASSERT_TRUE(experts) << experts.error().message();
  EXPECT_EQ(experts->num_expert_layers(), 4U);
  EXPECT_TRUE(read("llama", R"("hidden_act":"swish",)")) << "transformers' other name of silu";
}

TEST(hf_config, mistral3_ties_its_head_by_default) {
  const auto tied = [](const std::string& outer, const std::string& inner) {
    const auto config = test::read_hf("{" + outer + R"("model_type":"mistral3","text_config":{)" + inner +
                                      R"("model_type":"ministral3","num_hidden_layers":2}})");
    return config ? config->tied_embeddings : false;
  };
  EXPECT_TRUE(tied("", ""));
  EXPECT_TRUE(tied("", R"("tie_word_embeddings":false,)"));
  EXPECT_FALSE(tied(R"("tie_word_embeddings":false,)", R"("tie_word_embeddings":true,)"));
}

} // namespace
} // namespace paceline::model::hf_rope_test
