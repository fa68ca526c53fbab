// Modules for multi-token prediction in directories: the defaults of their models' classes, rotation, and the
// names of tensors.
#include "runtime/model/heads/eagle/eagle_config.hpp"
#include "runtime/model/loader/weights/mtp_names.hpp"
#include "tests/support/head_test.hpp"
#include "tests/support/opened_hf.hpp"

#include <gmock/gmock.h>

#include <string>

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

/// The config of the module in a directory whose config.json is `text`.
model::model_config module_of(const std::string& text, bool has_experts = false) {
  const auto object = model::parse_json_object(text, "config.json");
  EXPECT_TRUE(object) << object.error().message();
  const auto config = model::read_eagle_config(*object, "config.json", model::eagle_version::eagle,
                                               {.has_experts = has_experts}, std::nullopt, {});
  EXPECT_TRUE(config) << config.error().message();
  return config ? config->layer : model::model_config();
}

TEST(mtp_config, has_the_defaults_of_its_models_class) {
  for (const std::string type : {"qwen3_5_text", "qwen3_5_moe_text"}) {
    const std::string text = R"({"model_type":"qwen3_5","text_config":{"model_type":")" + type + R"("}})";
    const auto model = read_hf(text);
    ASSERT_TRUE(model) << model.error().message();
    const auto module = module_of(text, type == "qwen3_5_moe_text");
    EXPECT_EQ(module.vocab_size, model->vocab_size) << type;
    EXPECT_EQ(module.hidden_size, model->hidden_size);
    EXPECT_EQ(module.ffn_size, model->ffn_size);
    EXPECT_EQ(module.num_heads, model->num_heads);
    EXPECT_EQ(module.num_kv_heads, model->num_kv_heads);
    EXPECT_EQ(module.head_dim, model->head_dim);
    EXPECT_EQ(module.num_rotated(), model->num_rotated());
    EXPECT_EQ(module.context_length, model->context_length);
    EXPECT_EQ(module.experts.ffn_size, model->experts.ffn_size);
    EXPECT_EQ(module.experts.shared_ffn_size, model->experts.shared_ffn_size);
  }
}

/// A config with the sizes of a small Qwen3.5, and further members.
std::string config_with(const std::string& more) {
  return R"({"model_type":"qwen3_5_text","vocab_size":288,"max_position_embeddings":64,"hidden_size":32,
      "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
      "intermediate_size":64)" +
         more + "}";
}

TEST(mtp_config, yarn_extends_its_context_like_the_models) {
  const std::string text = config_with(R"(,"rope_parameters":{"rope_type":"yarn","factor":4,
      "original_max_position_embeddings":64})");
  EXPECT_EQ(read_hf(text)->context_length, 256U);
  EXPECT_EQ(module_of(text).context_length, 256U);
}

TEST(mtp_config, rotates_the_share_that_the_model_rotates) {
  const std::string half = R"("partial_rotary_factor":0.5)", whole = R"("partial_rotary_factor":1.0)";
  for (const std::string& more :
       {"," + whole + R"(,"rope_parameters":{"rope_type":"default",)" + half + "}",
        "," + half + R"(,"rope_scaling":{"rope_type":"linear","factor":2},"rope_parameters":{)" + whole + "}",
        R"(,"rope_scaling":{"rope_type":"linear","factor":2,)" + half + R"(},"rope_parameters":{)" + whole +
            "}"}) {
    const auto model = read_hf(config_with(more));
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(model->num_rotated(), 8U) << more;
    EXPECT_EQ(module_of(config_with(more)).num_rotated(), 8U) << more;
  }
}

class mtp_names_test : public head_test {};

TEST_F(mtp_names_test, tensors_may_be_named_within_a_model_with_other_parts) {
  for (const bool mixture : {false, true}) {
    const auto made = mixture ? tiny_head::mtp_experts(hidden, vocab) : tiny_head::mtp_next(hidden, vocab);
    const auto plain = load("mtp", made);
    ASSERT_TRUE(plain) << plain.error().message();
    for (const std::string prefix : {"model.", "language_model.", "model.language_model."}) {
      auto head = made;
      for (const auto& [name, one] : made.tensors) head.rename(name, prefix + name);
      const auto nested = load("mtp", head);
      ASSERT_TRUE(nested) << nested.error().message();
      EXPECT_EQ((*nested)->info().weights_bytes, (*plain)->info().weights_bytes);
      head.copy(prefix + "mtp.layers.1.input_layernorm.weight", prefix + "mtp.norm.weight");
      EXPECT_THAT(problem("mtp", head), HasSubstr("second module"));
      EXPECT_TRUE(model::is_mtp_expert_tensor(prefix + "mtp.layers.0.mlp.gate.weight"));
    }
  }
}

} // namespace
} // namespace paceline::test
