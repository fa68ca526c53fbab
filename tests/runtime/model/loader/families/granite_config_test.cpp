// Granite's files: its four factors.
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace paceline::model::granite_test {
namespace {

using testing::HasSubstr;

test::gguf_builder tiny() { return test::make_tiny_gguf({.arch = architecture::granite}); }

TEST(granite_gguf, states_four_factors) {
  const auto config = test::open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->embedding_scale, 3);
  EXPECT_EQ(config->attention_scale, 0.25F);
  EXPECT_EQ(config->residual_scale, 0.375F);
  EXPECT_FLOAT_EQ(config->logits_scale, 1.6F) << "the file's divides";
  EXPECT_EQ(config->layout, rope_layout::interleaved);
}

TEST(granite_gguf, all_but_that_of_logits_may_be_absent_or_0) {
  auto file = tiny();
  file.remove("granite.embedding_scale").remove("granite.attention.scale");
  file.set_float32("granite.residual_scale", 0);
  const auto config = test::open(file);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->embedding_scale, 1);
  EXPECT_FLOAT_EQ(config->attention_scale, 1 / std::sqrt(8.0F));
  EXPECT_EQ(config->residual_scale, 1);
  EXPECT_THAT(test::problem(tiny().remove("granite.logit_scale")).message(),
              HasSubstr("'granite.logit_scale' is missing"));
}

TEST(granite_gguf, refuses_what_does_not_fit) {
  const auto with = [](const char* key, float value) {
    return test::problem(tiny().set_float32(key, value)).message();
  };
  for (const float value : {0.0F, -8.0F, 1e7F, std::nanf("")})
    EXPECT_THAT(with("granite.logit_scale", value), HasSubstr("'granite.logit_scale' must be")) << value;
  EXPECT_THAT(with("granite.residual_scale", -1), HasSubstr("residual_scale must be above 0"));
  EXPECT_THAT(with("granite.embedding_scale", -1), HasSubstr("embedding_scale must be above 0"));
  EXPECT_THAT(with("granite.attention.scale", -1), HasSubstr("attention_scale must be above 0"));
  EXPECT_THAT(test::problem(tiny().set_bool("granite.rope.scaling.finetuned", false)).message(),
              HasSubstr("'granite.rope.scaling.finetuned' must be true"));
  EXPECT_TRUE(test::open(tiny().set_bool("granite.rope.scaling.finetuned", true)));
  EXPECT_THAT(test::problem(tiny().set_uint32("granite.expert_count", 8)).message(),
              HasSubstr("mixture of experts"));
}

expected<model_config> read(const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":"granite","vocab_size":288,"hidden_size":32,
      "max_position_embeddings":64,"num_hidden_layers":2,"num_attention_heads":8,"intermediate_size":64})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read(extra)); }

TEST(granite_hf, factors_have_the_defaults_of_its_class) {
  const auto plain = read();
  ASSERT_TRUE(plain) << plain.error().message();
  EXPECT_EQ(plain->embedding_scale, 1);
  EXPECT_EQ(plain->attention_scale, 1) << "not that of the head's size";
  EXPECT_EQ(plain->residual_scale, 1);
  EXPECT_EQ(plain->logits_scale, 1);
  EXPECT_EQ(plain->num_kv_heads, 8U);
  EXPECT_FALSE(plain->tied_embeddings);
  const auto config = read(R"("embedding_multiplier":12.0,"attention_multiplier":0.015625,
                              "residual_multiplier":0.22,"logits_scaling":8.0,)");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->embedding_scale, 12);
  EXPECT_EQ(config->attention_scale, 1.0F / 64);
  EXPECT_EQ(config->residual_scale, 0.22F);
  EXPECT_EQ(config->logits_scale, 0.125F);
}

TEST(granite_hf, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(R"("logits_scaling":0,)"), HasSubstr("'logits_scaling' must be 1e-6 to 1e6"));
  EXPECT_THAT(problem(R"("residual_multiplier":0,)"), HasSubstr("residual_scale must be above 0"));
  EXPECT_THAT(problem(R"("embedding_multiplier":"12",)"), HasSubstr("'embedding_multiplier' must be"));
  EXPECT_THAT(problem(R"("attention_multiplier":-1,)"), HasSubstr("attention_scale must be above 0"));
  EXPECT_THAT(problem(R"("mlp_bias":true,)"), HasSubstr("'mlp_bias' must be false"));
}

} // namespace
} // namespace paceline::model::granite_test
