#include "runtime/model/loader/hugging_face/hf_config.hpp"

#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/rope_frequencies.hpp"
#include "tests/support/opened_hf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

namespace paceline::model::hf_config_test {
namespace {

using testing::HasSubstr;

/// A complete config of `model_type`, with `extra` members in front.
expected<model_config> read(std::string_view model_type, const std::string& extra = "") {
  const std::string text =
      "{" + extra + R"("model_type":")" + std::string(model_type) +
      R"(","vocab_size":288,"max_position_embeddings":64,"hidden_size":32,"num_hidden_layers":4,
                           "num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,"rms_norm_eps":1e-5})";
  return test::read_hf(text);
}

error problem(std::string_view model_type, const std::string& extra) {
  const auto config = read(model_type, extra);
  return config ? error(errc::internal, "was accepted") : config.error();
}

TEST(hf_config, every_model_type_has_its_defaults) {
  const auto llama = read("llama");
  ASSERT_TRUE(llama) << llama.error().message();
  EXPECT_EQ(llama->arch, architecture::llama);
  EXPECT_EQ(llama->layout, rope_layout::half_split);
  EXPECT_EQ(llama->head_dim, 8U);
  EXPECT_EQ(llama->rope.theta, 10000);
  EXPECT_FALSE(llama->tied_embeddings);
  EXPECT_EQ(llama->sliding_window, 0U);
  EXPECT_TRUE(read("qwen2")->qkv_bias);
  EXPECT_FALSE(read("qwen2")->attention_output_bias);
  EXPECT_EQ(read("qwen3")->head_dim, 128U);
  EXPECT_TRUE(read("qwen3")->qk_norm);
  const auto gemma = read("gemma3_text", R"("sliding_window":16,)");
  ASSERT_TRUE(gemma) << gemma.error().message();
  EXPECT_EQ(gemma->head_dim, 256U);
  EXPECT_TRUE(gemma->tied_embeddings && gemma->post_norms && gemma->qk_norm);
  EXPECT_EQ(gemma->rope.theta, 1e6);
  EXPECT_EQ(gemma->local_rope.theta, 1e4);
  EXPECT_FLOAT_EQ(gemma->attention_scale, 1.0F / 16);
  EXPECT_FLOAT_EQ(gemma->embedding_scale, std::sqrt(32.0F));
}

TEST(hf_config, biases_follow_attention_bias) {
  EXPECT_TRUE(read("llama", R"("attention_bias":true,)")->qkv_bias);
  EXPECT_TRUE(read("llama", R"("attention_bias":true,)")->attention_output_bias);
  EXPECT_FALSE(read("llama")->qkv_bias);
}

TEST(hf_config, windows_are_read_in_every_spelling) {
  EXPECT_THAT(read("gemma3_text", R"("sliding_window":16,"sliding_window_pattern":2,)")->local_layers,
              testing::ElementsAre(true, false, true, false));
  EXPECT_THAT(read("gemma3_text", R"("sliding_window":16,"layer_types":["full_attention","sliding_attention",
                             "sliding_attention","full_attention"],)")
                  ->local_layers,
              testing::ElementsAre(false, true, true, false));
  EXPECT_THAT(read("mistral", R"("sliding_window":16,)")->local_layers,
              testing::ElementsAre(true, true, true, true));
  EXPECT_EQ(read("mistral", R"("sliding_window":null,)")->sliding_window, 0U);
  EXPECT_EQ(read("qwen2", R"("sliding_window":16,"use_sliding_window":false,)")->sliding_window, 0U);
  EXPECT_THAT(
      read("qwen2", R"("sliding_window":16,"use_sliding_window":true,"max_window_layers":3,)")->local_layers,
      testing::ElementsAre(false, false, false, true));
}

TEST(hf_config, local_layers_of_families_with_one_rotation_share_it) {
  const auto config = read("mistral", R"("sliding_window":16,"rope_theta":5000.0,)");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->rope_of(0).theta, 5000);
}

TEST(hf_config, rope_scaling_is_read_in_every_spelling) {
  const auto llama3 =
      read("llama", R"("rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
    "high_freq_factor":4.0,"original_max_position_embeddings":32},)");
  ASSERT_TRUE(llama3) << llama3.error().message();
  EXPECT_EQ(llama3->rope.scaling.kind, rope_scaling_kind::llama3);
  EXPECT_EQ(llama3->rope.scaling.original_context_length, 32U);
  const auto linear = read("llama", R"("rope_scaling":{"type":"linear","factor":2},)");
  EXPECT_EQ(linear->rope.scaling.kind, rope_scaling_kind::linear);
  const auto newer = read("llama", R"("rope_parameters":{"rope_type":"default","rope_theta":300.0},)");
  EXPECT_EQ(newer->rope.theta, 300);
  const auto both = read("llama", R"("rope_parameters":{"rope_type":"default","rope_theta":300.0},
    "rope_scaling":{"rope_type":"linear","factor":2.0},)");
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(both->rope.scaling.kind, rope_scaling_kind::linear) << "what a user adds is not ignored";
  EXPECT_EQ(both->rope.theta, 300);
  const auto gemma =
      read("gemma3_text", R"("rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,
    "rope_theta":1000000.0},"sliding_attention":{"rope_type":"default","rope_theta":2000.0}},)");
  ASSERT_TRUE(gemma) << gemma.error().message();
  EXPECT_EQ(gemma->rope.scaling.factor, 8);
  EXPECT_EQ(gemma->local_rope.theta, 2000);
  EXPECT_EQ(gemma->local_rope.scaling.kind, rope_scaling_kind::none);
}

TEST(hf_config, an_added_rope_scaling_reaches_nested_parameters_and_an_empty_one_changes_nothing) {
  const auto added = read("gemma3_text", R"("rope_scaling":{"rope_type":"linear","factor":4.0},
    "rope_parameters":{"full_attention":{"rope_type":"default","rope_theta":3000.0},
    "sliding_attention":{"rope_type":"default","rope_theta":2000.0}},)");
  ASSERT_TRUE(added) << added.error().message();
  EXPECT_EQ(added->rope.scaling.factor, 4);
  EXPECT_EQ(added->rope.theta, 3000);
  EXPECT_EQ(added->local_rope.scaling.kind, rope_scaling_kind::none);
  const auto empty = read("llama", R"("rope_scaling":{},
    "rope_parameters":{"rope_type":"linear","factor":2.0,"rope_theta":300.0},)");
  ASSERT_TRUE(empty) << empty.error().message();
  EXPECT_EQ(empty->rope.scaling.factor, 2);
  EXPECT_EQ(empty->rope.theta, 300);
}

TEST(hf_config, scaling_of_gemma_leaves_local_layers_alone) {
  const auto config = read("gemma3_text", R"("rope_scaling":{"rope_type":"linear","factor":8.0},)");
  EXPECT_EQ(config->rope.scaling.factor, 8);
  EXPECT_EQ(config->local_rope.scaling.kind, rope_scaling_kind::none);
}

TEST(hf_config, yarn_extends_the_context_and_has_a_magnitude) {
  const auto yarn = [](const std::string& extra) {
    return read("qwen2", R"("rope_scaling":{"rope_type":"yarn","factor":4.0,)" + extra +
                             R"("original_max_position_embeddings":64},)");
  };
  EXPECT_EQ(yarn("")->context_length, 256U);
  EXPECT_DOUBLE_EQ(yarn("")->rope.scaling.magnitude, yarn_magnitude(4));
  EXPECT_DOUBLE_EQ(yarn(R"("attention_factor":0.5,)")->rope.scaling.magnitude, 0.5);
  EXPECT_DOUBLE_EQ(yarn(R"("mscale":0.7,"mscale_all_dim":1.0,)")->rope.scaling.magnitude,
                   yarn_magnitude(4, 0.7) / yarn_magnitude(4, 1));
  EXPECT_FALSE(yarn(R"("truncate":false,)")->rope.scaling.truncate);
}

TEST(hf_config, what_is_not_supported_is_refused_by_name) {
  EXPECT_THAT(problem("mixtral", R"("num_local_experts":8,)").message(),
              HasSubstr("'mixtral' (a mixture of experts); supported are llama, mistral, qwen2"));
  EXPECT_THAT(problem("gemma3", R"("vision_config":{},)").message(), HasSubstr("'gemma3' (a vision model)"));
  EXPECT_THAT(problem("t5", R"("is_encoder_decoder":true,)").message(),
              HasSubstr("'t5' (an encoder-decoder)"));
  const std::pair<const char*, const char*> cases[] = {
      {"mlp_bias", R"("mlp_bias":true,)"},
      {"hidden_act", R"("hidden_act":"gelu",)"},
      {"final_logit_softcapping", R"("final_logit_softcapping":30.0,)"},
      {"architectures", R"("architectures":["LlamaForSequenceClassification"],)"},
      {"rope_type", R"("rope_scaling":{"rope_type":"dynamic","factor":2.0},)"},
      {"use_bidirectional_attention", R"("use_bidirectional_attention":true,)"},
  };
  for (const auto& [key, extra] : cases) {
    EXPECT_EQ(problem("llama", extra).code(), errc::unsupported) << key;
    EXPECT_THAT(problem("llama", extra).message(), HasSubstr("config.json")) << key;
    EXPECT_THAT(problem("llama", extra).message(), HasSubstr(key));
  }
}

TEST(hf_config, a_wrong_value_is_named) {
  for (const std::string key :
       {"vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "head_dim"}) {
    for (const std::string value :
         {"0", "-1", "1.5", "4294967296", "1e400", "\"8\"", "true", "[]", "4294967295"}) {
      std::string text =
          R"({"model_type":"llama","vocab_size":288,"max_position_embeddings":64,"hidden_size":32,
        "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,"head_dim":8,)";
      const auto at = text.find("\"" + key + "\":") + key.size() + 3;
      text.replace(at, text.find(',', at) - at, value);
      text += R"("rms_norm_eps":1e-5})";
      const auto object = parse_json_object(text, "config.json");
      if (!object) continue; // the parser does not accept 1e400 either
      const auto config = read_hf_config(*object, "config.json");
      ASSERT_FALSE(config) << key << " " << value;
      EXPECT_THAT(config.error().message(), HasSubstr("config.json"));
    }
  }
  EXPECT_THAT(problem("llama", R"("rope_theta":"x",)").message(), HasSubstr("'rope_theta' must be a number"));
  EXPECT_THAT(problem("llama", R"("rope_scaling":3,)").message(),
              HasSubstr("'rope_scaling' must be an object"));
  EXPECT_THAT(problem("llama", R"("rope_scaling":{"rope_type":"llama3"},)").message(),
              HasSubstr("config.json: rope_scaling: key 'factor' is missing"));
  EXPECT_NE(problem("gemma3_text", R"("query_pre_attn_scalar":0,)").code(), errc::internal);
  EXPECT_NE(problem("gemma3_text", R"("query_pre_attn_scalar":-1,)").code(), errc::internal);
  EXPECT_NE(problem("gemma3_text", R"("layer_types":["full_attention"],)").code(), errc::internal);
  EXPECT_NE(problem("gemma3_text", R"("sliding_window_pattern":0,)").code(), errc::internal);
}

TEST(json_text, objects_are_strict) {
  const auto refused = [](std::string_view text) {
    const auto object = parse_json_object(text, "f");
    return object ? std::string("was accepted") : object.error().message();
  };
  EXPECT_EQ(refused(R"({"a":{"b":1},"c":{"b":2}})"), "was accepted");
  EXPECT_THAT(refused(R"({"a":{"b":1,"b":2}})"), HasSubstr("key 'b' occurs twice"));
  EXPECT_THAT(refused(R"({"b":1,"\u0062":2})"), HasSubstr("key 'b' occurs twice"));
  EXPECT_THAT(refused("{} {}"), HasSubstr("follows the JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("must be a JSON object"));
  EXPECT_THAT(refused("{\"a\":"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}"),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(refused("{\"a\":\"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(""), HasSubstr("f: not valid JSON"));
}

} // namespace
} // namespace paceline::model::hf_config_test
