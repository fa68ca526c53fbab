// OLMo 2's and 3's files: norms behind blocks only, QK norm over all heads, windows, and YaRN in the layers
// without one.
#include "runtime/model/rope_frequencies.hpp"
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace paceline::model::olmo2_test {
namespace {

using device::tensor_type;
using test::gguf_builder;
using testing::ElementsAre;
using testing::HasSubstr;

gguf_builder tiny(std::uint32_t num_layers = 2) {
  return test::make_tiny_gguf({.arch = architecture::olmo2, .num_layers = num_layers});
}

const std::string window = "olmo2.attention.sliding_window";
const std::string pattern = "olmo2.attention.sliding_window_pattern";

TEST(olmo2_gguf, has_its_norms) {
  const auto config = test::open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_FALSE(config->pre_norms);
  EXPECT_TRUE(config->post_norms && config->qk_norm && config->qk_norm_of_rows);
  EXPECT_EQ(config->layout, rope_layout::half_split);
  EXPECT_EQ(shape_of(*config, tensor_role::q_norm, 0).cols, 32U);
  EXPECT_EQ(shape_of(*config, tensor_role::k_norm, 0).cols, 16U);
  EXPECT_EQ(shape_of(*config, tensor_role::attention_norm, 0).rows, 0U);
  EXPECT_EQ(shape_of(*config, tensor_role::ffn_norm, 0).rows, 0U);
}

TEST(olmo2_gguf, only_layers_without_a_window_are_scaled) {
  const auto config = test::open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->sliding_window, 4U);
  const rope_config &local = config->rope_of(0), &global = config->rope_of(1);
  EXPECT_EQ(local.scaling.kind, rope_scaling_kind::none);
  EXPECT_EQ(local.scaling.magnitude, 1);
  EXPECT_EQ(local.theta, 10000);
  EXPECT_EQ(global.scaling.kind, rope_scaling_kind::yarn);
  EXPECT_EQ(global.scaling.factor, 8);
  EXPECT_EQ(global.scaling.original_context_length, 12U);
  EXPECT_EQ(global.theta, 10000);
  const auto own = test::open(tiny().set_float32("olmo2.rope.freq_base_swa", 500));
  EXPECT_EQ(own->rope_of(0).theta, 500);
  EXPECT_EQ(own->rope_of(1).theta, 10000);
}

TEST(olmo2_gguf, layers_with_a_window_are_flagged_or_at_a_distance) {
  const auto local = [](const gguf_builder& file) { return test::open(file)->local_layers; };
  EXPECT_THAT(local(tiny()), ElementsAre(true, false));
  EXPECT_THAT(local(tiny(3).set_bools(pattern, {false, true, true})), ElementsAre(false, true, true));
  EXPECT_THAT(local(tiny(5).remove(pattern)), ElementsAre(true, true, true, false, true)) << "the default";
}

TEST(olmo2_gguf, olmo_2_has_no_window) {
  for (const auto& file :
       {tiny().remove(window), tiny().remove(window).remove(pattern), tiny().set_uint32(window, 0)}) {
    const auto config = test::open(file);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->sliding_window, 0U);
    EXPECT_EQ(config->rope_of(0).scaling.kind, rope_scaling_kind::yarn);
  }
}

TEST(olmo2_gguf, olmo3_is_its_name_in_ollamas_files) {
  const auto config =
      test::open(tiny().rename_keys("olmo2.", "olmo3.").set_string("general.architecture", "olmo3"));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->arch, architecture::olmo2);
  EXPECT_EQ(config->sliding_window, 4U);
  EXPECT_EQ(config->rope_of(1).scaling.factor, 8);
}

TEST(olmo2_gguf, the_magnitude_may_have_the_name_of_a_further_factor) {
  const std::string factor = "olmo2.rope.scaling.attn_factor", own = "olmo2.rope.scaling.yarn_attn_factor";
  const auto config = test::open(tiny().remove(own).set_float32(factor, 1.25F));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope_of(1).scaling.magnitude, 1.25) << "in place of YaRN's own";
  EXPECT_EQ(config->rope_of(0).scaling.magnitude, 1) << "layers with a window are not scaled";
  EXPECT_EQ(test::open(tiny().set_float32(factor, 1.25F))->rope_of(1).scaling.magnitude, 1.5 * 1.25);
  EXPECT_DOUBLE_EQ(test::open(tiny().remove(own))->rope_of(1).scaling.magnitude, yarn_magnitude(8));
}

std::string refusal(const gguf_builder& file) { return test::problem(file).message(); }

TEST(olmo2_gguf, refuses_what_does_not_fit) {
  const auto values = [](std::size_t count) { return std::vector<std::byte>(count * 4); };
  EXPECT_THAT(refusal(tiny().add_tensor("blk.1.attn_norm.weight", tensor_type::f32, {32}, values(32))),
              HasSubstr("'blk.1.attn_norm.weight' has no meaning"));
  const std::string q_norm = "blk.1.attn_q_norm.weight";
  EXPECT_THAT(refusal(tiny().remove_tensor(q_norm).add_tensor(q_norm, tensor_type::f32, {8}, values(8))),
              HasSubstr("'blk.1.attn_q_norm.weight' must have the shape [1][32], has [1][8]"));
  const std::string k_norm = "blk.1.attn_k_norm.weight";
  EXPECT_THAT(refusal(tiny().remove_tensor(k_norm).add_tensor(k_norm, tensor_type::f32, {32}, values(32))),
              HasSubstr("'blk.1.attn_k_norm.weight' must have the shape [1][16], has [1][32]"));
  EXPECT_THAT(refusal(tiny().remove_tensor("blk.1.post_ffw_norm.weight")),
              HasSubstr("'blk.1.post_ffw_norm.weight' is missing"));
  EXPECT_THAT(refusal(tiny().set_uint32(pattern, 0)), HasSubstr("_pattern' must be at least 1"));
  EXPECT_THAT(refusal(tiny().set_bools(pattern, {true})), HasSubstr("'" + pattern + "' must"));
  EXPECT_THAT(refusal(tiny().set_string(window, "4")), HasSubstr("'" + window + "' must be"));
  EXPECT_THAT(refusal(tiny().set_float32("olmo2.rope.freq_base_swa", 0)), HasSubstr("local rope theta"));
}

expected<model_config> read(const char* model_type, const std::string& extra = "") {
  const std::string text = "{" + extra + R"("model_type":")" + model_type +
                           R"(","vocab_size":288,"hidden_size":32,"max_position_embeddings":64,
      "num_hidden_layers":5,"num_attention_heads":4,"intermediate_size":64})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read("olmo3", extra)); }

TEST(olmo2_hf, settings_have_the_defaults_of_their_classes) {
  for (const char* const type : {"olmo2", "olmo3"}) {
    const auto config = read(type);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->arch, architecture::olmo2);
    EXPECT_FALSE(config->pre_norms);
    EXPECT_TRUE(config->post_norms && config->qk_norm && config->qk_norm_of_rows);
    EXPECT_EQ(config->norm_epsilon, 1e-5F);
    EXPECT_EQ(config->num_kv_heads, 4U);
    EXPECT_EQ(config->head_dim, 8U);
    EXPECT_FALSE(config->tied_embeddings);
    EXPECT_FALSE(config->qkv_bias);
    EXPECT_TRUE(read(type, R"("attention_bias":true,)")->attention_output_bias);
  }
  EXPECT_EQ(read("olmo2", R"("sliding_window":16,)")->sliding_window, 0U) << "its class has none";
  EXPECT_EQ(read("olmo2")->rope.theta, 1e4);
  const auto third = read("olmo3");
  EXPECT_EQ(third->rope.theta, 5e5);
  EXPECT_EQ(third->local_rope.theta, 5e5);
  EXPECT_EQ(third->sliding_window, 4096U);
  EXPECT_THAT(third->local_layers, ElementsAre(true, true, true, false, true));
  EXPECT_THAT(read("olmo3", R"("layer_types":["full_attention","sliding_attention","full_attention",
                              "full_attention","sliding_attention"],)")
                  ->local_layers,
              ElementsAre(false, true, false, false, true));
}

TEST(olmo2_hf, scaling_leaves_local_layers_alone_in_either_spelling) {
  const std::string yarn =
      R"("rope_type":"yarn","factor":8.0,"original_max_position_embeddings":16,"attention_factor":1.5)";
  const auto older = read("olmo3", R"("rope_theta":300.0,"rope_scaling":{)" + yarn + "},");
  ASSERT_TRUE(older) << older.error().message();
  const auto newer =
      read("olmo3", R"("rope_parameters":{"full_attention":{"rope_theta":300.0,)" + yarn +
                        R"(},"sliding_attention":{"rope_type":"default","rope_theta":300.0}},)");
  ASSERT_TRUE(newer) << newer.error().message();
  for (const auto& config : {*older, *newer}) {
    EXPECT_EQ(config.rope_of(0).theta, 300);
    EXPECT_EQ(config.rope_of(0).scaling.kind, rope_scaling_kind::none);
    EXPECT_EQ(config.rope_of(0).scaling.magnitude, 1);
    EXPECT_EQ(config.rope_of(3).theta, 300);
    EXPECT_EQ(config.rope_of(3).scaling.kind, rope_scaling_kind::yarn);
    EXPECT_EQ(config.rope_of(3).scaling.magnitude, 1.5);
    EXPECT_EQ(config.context_length, 128U);
  }
  const auto own = read("olmo3", R"("rope_parameters":{"full_attention":{"rope_theta":300.0,)" + yarn +
                                     R"(},"sliding_attention":{"rope_type":"default","rope_theta":70.0}},)");
  EXPECT_EQ(own->rope_of(0).theta, 70);
  const auto divided =
      read("olmo3", R"("rope_scaling":{"type":"longrope","original_max_position_embeddings":16,
                                        "long_factor":[1.5,2,3,4],"short_factor":[1,1,1,1]},)");
  ASSERT_TRUE(divided) << divided.error().message();
  EXPECT_EQ(divided->rope_of(3).frequency_divisors.size(), 4U);
  EXPECT_TRUE(divided->rope_of(0).frequency_divisors.empty());
  EXPECT_EQ(divided->rope_of(0).scaling.magnitude, 1);
  EXPECT_EQ(read("olmo2", R"("rope_scaling":{)" + yarn + "},")->rope_of(0).scaling.magnitude, 1.5);
}

TEST(olmo2_hf, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(R"("sliding_window":null,)"), HasSubstr("'sliding_window' must be a number"));
  EXPECT_THAT(problem(R"("sliding_window":0,)"), HasSubstr("'sliding_window' must be at least 1"));
  EXPECT_THAT(problem(R"("layer_types":["full_attention"],)"),
              HasSubstr("'layer_types' must have one element for each of the"));
  EXPECT_THAT(problem(R"("rope_parameters":{"full_attention":{"rope_type":"su"}},)"),
              HasSubstr("full_attention: key 'rope_type' is 'su'"));
  EXPECT_THAT(problem(R"("hidden_act":"gelu",)"), HasSubstr("'hidden_act' must be 'silu'"));
}

} // namespace
} // namespace paceline::model::olmo2_test
