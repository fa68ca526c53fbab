// Ministral 3's files: how queries grow, and the magnitude of YaRN.
#include "runtime/model/rope_frequencies.hpp"
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace paceline::model::mistral3_test {
namespace {

using testing::HasSubstr;

test::gguf_builder tiny() { return test::make_tiny_gguf({.arch = architecture::mistral3}); }

TEST(mistral3_gguf, queries_grow_with_each_original_context) {
  const auto config = test::open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->layout, rope_layout::interleaved);
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::yarn);
  EXPECT_EQ(config->growth.beta, 0.5);
  EXPECT_EQ(config->growth.period, 12U);
  EXPECT_DOUBLE_EQ(config->rope.scaling.magnitude, yarn_magnitude(8) / yarn_magnitude(8, 0.75));
  const std::string length = "mistral3.attention.temperature_length";
  EXPECT_EQ(test::open(tiny().set_uint32(length, 20))->growth.period, 20U);
  auto unscaled = tiny();
  unscaled.remove("mistral3.rope.scaling.original_context_length").remove("mistral3.rope.scaling.type");
  unscaled.set_string("mistral3.rope.scaling.type", "none");
  EXPECT_EQ(test::open(unscaled)->growth.period, 64U) << "the context's length";
}

TEST(mistral3_gguf, of_mistral_small_is_a_plain_llama) {
  auto file = tiny();
  for (const char* key : {"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
                          "rope.scaling.yarn_log_multiplier", "attention.temperature_scale"})
    file.remove(std::string("mistral3.") + key);
  const auto config = test::open(file);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->growth.period, 0U);
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::none);
  EXPECT_EQ(config->rope.scaling.magnitude, 1);
}

TEST(mistral3_gguf, ollamas_names_of_the_keys_are_read) {
  const auto with = [](float weight) {
    auto file = tiny();
    for (const auto& [from, to] : {std::pair{"rope.scaling.yarn_beta_", "rope.scaling.beta_"},
                                   {"rope.scaling.yarn_log_multiplier", "rope.scaling.mscale_all_dim"},
                                   {"attention.temperature_scale", "rope.scaling_beta"}})
      file.rename_keys(std::string("mistral3.") + from, std::string("mistral3.") + to);
    return test::open(file.set_float32("mistral3.rope.scaling.mscale", weight));
  };
  const auto config = with(1);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.beta_fast, 2);
  EXPECT_EQ(config->rope.scaling.beta_slow, 0.5);
  EXPECT_DOUBLE_EQ(config->rope.scaling.magnitude, yarn_magnitude(8) / yarn_magnitude(8, 0.75));
  EXPECT_EQ(config->growth.beta, 0.5);
  EXPECT_EQ(config->growth.period, 12U);
  EXPECT_EQ(with(0.75F)->rope.scaling.magnitude, 1) << "both weights count, as in config.json";
  EXPECT_DOUBLE_EQ(with(0)->rope.scaling.magnitude, yarn_magnitude(8));
}

TEST(mistral3_gguf, an_empty_type_of_scaling_is_none) {
  auto file = tiny();
  file.set_string("mistral3.rope.scaling.type", "").set_float32("mistral3.rope.scaling.factor", 0);
  const auto config = test::open(file);
  ASSERT_TRUE(config) << config.error().message() << ", as Ollama writes it for Mistral Small 3";
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::none);
}

TEST(mistral3_gguf, refuses_what_does_not_fit) {
  const auto with = [](const char* key, float value) {
    return test::problem(tiny().set_float32(std::string("mistral3.") + key, value)).message();
  };
  EXPECT_THAT(with("attention.temperature_scale", -0.5F), HasSubstr("query growth must be 0 to 1000"));
  EXPECT_THAT(with("attention.temperature_scale", std::nanf("")), HasSubstr("temperature_scale' must be"));
  EXPECT_THAT(with("rope.scaling.yarn_log_multiplier", -1e3F), HasSubstr("magnitude must be above 0"));
  EXPECT_THAT(test::problem(tiny().set_uint32("mistral3.attention.temperature_length", 0)).message(),
              HasSubstr("'mistral3.attention.temperature_length' must be at least 1"));
  EXPECT_THAT(test::problem(tiny().set_uint32("mistral3.expert_count", 4)).message(),
              HasSubstr("mixture of experts"));
}

expected<model_config> read(const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":"ministral3","vocab_size":288,"hidden_size":32,
      "max_position_embeddings":512,"num_hidden_layers":2,"num_attention_heads":8,"intermediate_size":64})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read(extra)); }

/// Rotary settings of YaRN, with further ones.
std::string rope(const std::string& more) {
  return R"("rope_parameters":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":128)" + more +
         "},";
}

TEST(ministral3_hf, queries_grow_if_the_rotary_settings_say_so) {
  const auto config = read(rope(R"(,"llama_4_scaling_beta":0.2,"mscale":1,"mscale_all_dim":1)"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->growth.beta, 0.2);
  EXPECT_EQ(config->growth.period, 128U);
  EXPECT_EQ(config->rope.scaling.magnitude, 1);
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_EQ(config->head_dim, 128U);
  EXPECT_EQ(config->num_kv_heads, 8U);
  EXPECT_EQ(config->context_length, 512U);
  EXPECT_EQ(read(rope(""))->growth.period, 0U);
  EXPECT_EQ(read(rope(R"(,"llama_4_scaling_beta":null)"))->growth.period, 0U);
}

TEST(ministral3_hf, without_rotary_settings_has_those_of_its_class) {
  const auto config = read();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::yarn);
  EXPECT_EQ(config->rope.scaling.factor, 16);
  EXPECT_EQ(config->rope.scaling.original_context_length, 16384U);
  EXPECT_EQ(config->rope.scaling.magnitude, 1);
  EXPECT_EQ(config->growth.beta, 0.1);
  EXPECT_EQ(config->norm_epsilon, 1e-5F);
  EXPECT_EQ(config->growth.period, 16384U);
}

TEST(ministral3_hf, is_read_beside_a_part_that_sees) {
  const auto config = test::read_hf(R"({"model_type":"mistral3","vision_config":{"model_type":"pixtral"},
      "architectures":["Mistral3ForConditionalGeneration"],"text_config":{"model_type":"ministral3",
      "hidden_size":64}})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->arch, architecture::mistral3);
  EXPECT_EQ(config->num_layers, 34U) << "the class's";
  EXPECT_EQ(config->ffn_size, 14336U);
}

TEST(ministral3_hf, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(R"("sliding_window":64,)"), HasSubstr("'sliding_window' must be null"));
  EXPECT_THAT(problem(R"("rope_parameters":{"rope_type":"default","llama_4_scaling_beta":0.1},)"),
              HasSubstr("'original_max_position_embeddings' is missing"));
  EXPECT_THAT(problem(R"("rope_parameters":{"rope_type":"default","llama_4_scaling_beta":0.1,
                          "original_max_position_embeddings":0},)"),
              HasSubstr("'original_max_position_embeddings' must be at least 1"));
  EXPECT_THAT(problem(rope(R"(,"llama_4_scaling_beta":-1)")), HasSubstr("query growth must be 0 to 1000"));
  EXPECT_THAT(problem(rope(R"(,"llama_4_scaling_beta":"x")")), HasSubstr("'llama_4_scaling_beta' must be"));
}

} // namespace
} // namespace paceline::model::mistral3_test
