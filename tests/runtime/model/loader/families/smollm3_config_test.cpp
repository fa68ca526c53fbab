// SmolLM3's files: which layers are not rotated.
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline::model::smollm3_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(smollm3_gguf, every_fourth_layer_is_not_rotated) {
  const auto config = test::open(test::make_tiny_gguf({.arch = architecture::smollm3, .num_layers = 9}));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_THAT(config->unrotated_layers,
              ElementsAre(false, false, false, true, false, false, false, true, false));
  EXPECT_FALSE(config->is_rotated(3));
  EXPECT_TRUE(config->is_rotated(8));
  EXPECT_EQ(config->layout, rope_layout::interleaved);
  EXPECT_TRUE(test::open(test::make_tiny_gguf({}))->is_rotated(1)) << "of other families all are";
}

expected<model_config> read(const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":"smollm3","vocab_size":288,"hidden_size":32,
      "max_position_embeddings":64,"num_hidden_layers":4,"num_attention_heads":8,"intermediate_size":64})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read(extra)); }

TEST(smollm3_hf, layers_without_rotation_are_listed_or_at_an_interval) {
  EXPECT_THAT(read(R"("no_rope_layers":[0,1,1,0],)")->unrotated_layers,
              ElementsAre(true, false, false, true));
  EXPECT_THAT(read(R"("no_rope_layers":[0,1,1,0],"no_rope_layer_interval":2,)")->unrotated_layers,
              ElementsAre(true, false, false, true))
      << "the list counts";
  EXPECT_THAT(read(R"("no_rope_layers":[0,1,1,0,1,1],)")->unrotated_layers,
              ElementsAre(true, false, false, true))
      << "of a model from which layers were removed";
  EXPECT_THAT(read(R"("no_rope_layers":null,"no_rope_layer_interval":2,)")->unrotated_layers,
              ElementsAre(false, true, false, true));
  EXPECT_THAT(read()->unrotated_layers, ElementsAre(false, false, false, true));
}

TEST(smollm3_hf, settings_have_the_defaults_of_its_class) {
  const auto config = read();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.theta, 2e6);
  EXPECT_EQ(config->num_kv_heads, 4U);
  EXPECT_EQ(read(R"("num_key_value_heads":null,)")->num_kv_heads, 8U) << "as many as there are heads";
  EXPECT_EQ(config->head_dim, 4U);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_TRUE(read(R"("attention_bias":true,)")->attention_output_bias);
  EXPECT_TRUE(read(R"("use_sliding_window":false,"sliding_window":null,"layer_types":["full_attention",
                      "full_attention","full_attention","full_attention"],)"));
}

TEST(smollm3_hf, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(R"("no_rope_layers":[0,1,1],)"),
              HasSubstr("'no_rope_layers' must have one element for each layer"));
  EXPECT_THAT(problem(R"("no_rope_layers":[0,1,1,2],)"), HasSubstr("must be a whole number below 2"));
  EXPECT_THAT(problem(R"("no_rope_layers":4,)"), HasSubstr("'no_rope_layers' must be"));
  EXPECT_THAT(problem(R"("no_rope_layer_interval":0,)"),
              HasSubstr("'no_rope_layer_interval' must be at least 1"));
  EXPECT_THAT(problem(R"("use_sliding_window":true,"sliding_window":64,)"),
              HasSubstr("'use_sliding_window' must be false"));
  EXPECT_THAT(problem(R"("layer_types":["full_attention","sliding_attention"],)"),
              HasSubstr("'layer_types' must hold 'full_attention' only"));
  EXPECT_THAT(problem(R"("mlp_bias":true,)"), HasSubstr("'mlp_bias' must be false"));
}

} // namespace
} // namespace paceline::model::smollm3_test
