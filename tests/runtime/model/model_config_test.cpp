#include "runtime/model/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <utility>

namespace paceline::model {
namespace {

using testing::HasSubstr;

model_config valid_config() {
  model_config config;
  config.vocab_size = 100;
  config.context_length = 64;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.ffn_size = 64;
  config.norm_epsilon = 1e-5F;
  config.attention_scale = 0.5F;
  config.local_layers = {false, false};
  return config;
}

/// Experts in all layers of `valid_config`.
expert_config experts(std::uint32_t num_experts, std::uint32_t num_used, std::uint32_t ffn_size) {
  expert_config out;
  out.routing.num_experts = num_experts;
  out.routing.num_used = num_used;
  out.ffn_size = ffn_size;
  out.layers.assign(valid_config().num_layers, true);
  return out;
}

TEST(model_config, sizes_of_projections_follow_the_heads) {
  const auto config = valid_config();
  EXPECT_TRUE(validate(config));
  EXPECT_EQ(config.q_size(), 32U);
  EXPECT_EQ(config.kv_size(), 16U);
}

TEST(model_config, local_layers_have_their_own_rotation) {
  auto config = valid_config();
  config.local_rope.theta = 77;
  config.local_layers = {false, true};
  EXPECT_FALSE(config.is_local(1));
  config.sliding_window = 4;
  EXPECT_TRUE(config.is_local(1));
  EXPECT_EQ(config.rope_of(0).theta, 10000);
  EXPECT_EQ(config.rope_of(1).theta, 77);
}

TEST(model_config, every_field_has_a_range) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  using change = std::function<void(model_config&)>;
  const std::pair<const char*, change> broken[] = {
      {"vocab_size", [](auto& c) { c.vocab_size = 0; }},
      {"vocab_size", [](auto& c) { c.vocab_size = (1U << 24) + 1; }},
      {"context_length", [](auto& c) { c.context_length = 0; }},
      {"hidden_size", [](auto& c) { c.hidden_size = 1U << 31; }},
      {"num_layers", [](auto& c) { c.num_layers = 5000; }},
      {"num_heads", [](auto& c) { c.num_heads = 0; }},
      {"num_kv_heads", [](auto& c) { c.num_kv_heads = 0; }},
      {"num_heads", [](auto& c) { c.num_kv_heads = 3; }},
      {"head_dim", [](auto& c) { c.head_dim = 7; }},
      {"head_dim", [](auto& c) { c.head_dim = 1U << 20; }},
      {"ffn_size", [](auto& c) { c.ffn_size = 0; }},
      {"local_layers", [](auto& c) { c.local_layers.pop_back(); }},
      {"num_mtp_modules", [](auto& c) { c.num_mtp_modules = 5000; }},
      {"layer_kinds", [](auto& c) { c.layer_kinds = {layer_kind::attention}; }},
      {"conv num_taps", [](auto& c) { c.conv.num_taps = 17; }},
      {"conv num_taps",
       [](auto& c) {
         c.layer_kinds = {layer_kind::attention, layer_kind::short_conv};
       }},
      {"delta num_keys", [](auto& c) { c.delta.num_keys = 1025; }},
      {"delta num_values", [](auto& c) { c.delta.num_values = 1025; }},
      {"delta key_dim", [](auto& c) { c.delta.key_dim = 257; }},
      {"delta value_dim", [](auto& c) { c.delta.value_dim = 1025; }},
      {"delta num_keys",
       [](auto& c) {
         c.conv.num_taps = 4, c.layer_kinds = {layer_kind::attention, layer_kind::gated_delta};
       }},
      {"unrotated_layers", [](auto& c) { c.unrotated_layers = {true}; }},
      {"num_experts", [=](auto& c) { c.experts = experts(4000, 2, 32); }},
      {"num_used_experts", [=](auto& c) { c.experts = experts(8, 0, 32); }},
      {"num_used_experts", [=](auto& c) { c.experts = experts(8, 9, 32); }},
      {"num_used_experts", [=](auto& c) { c.experts = experts(100, 33, 32); }},
      {"expert ffn_size", [=](auto& c) { c.experts = experts(8, 2, 0); }},
      {"expert layers", [=](auto& c) { c.experts = experts(8, 2, 32), c.experts.layers.clear(); }},
      {"expert scale", [=](auto& c) { c.experts = experts(8, 2, 32), c.experts.routing.scale = nan; }},
      {"norm_epsilon", [=](auto& c) { c.norm_epsilon = nan; }},
      {"attention_scale", [](auto& c) { c.attention_scale = 0; }},
      {"embedding_scale", [=](auto& c) { c.embedding_scale = nan; }},
      {"residual_scale", [=](auto& c) { c.residual_scale = nan; }},
      {"logits_scale", [](auto& c) { c.logits_scale = 0; }},
      {"query growth",
       [=](auto& c) {
         c.growth = {nan, 8};
       }},
      {"query growth",
       [](auto& c) {
         c.growth = {0.1, 8}, c.sliding_window = 4;
       }},
      {"query growth",
       [](auto& c) {
         c.growth = {0.1, 8}, c.rotary_dim = 4;
       }},
      {"query growth",
       [](auto& c) {
         c.growth = {0.1, 8}, c.unrotated_layers = {true, false};
       }},
      {"pre_norms", [](auto& c) { c.pre_norms = false; }},
      {"pre_norms", [](auto& c) { c.pre_norms = false, c.post_norms = c.attention_gate = true; }},
      {"pre_norms",
       [=](auto& c) { c.pre_norms = false, c.post_norms = true, c.experts = experts(8, 2, 32); }},
      {"qk_norm_of_rows", [](auto& c) { c.qk_norm_of_rows = true; }},
      {"rope theta", [](auto& c) { c.rope.theta = 1; }},
      {"local rope theta", [=](auto& c) { c.local_rope.theta = nan; }},
      {"rope scaling factor", [](auto& c) { c.rope.scaling.factor = 0.5; }},
      {"rope scaling magnitude", [](auto& c) { c.rope.scaling.magnitude = 0; }},
      {"original context length", [](auto& c) { c.rope.scaling.kind = rope_scaling_kind::yarn; }},
      {"frequency factors",
       [](auto& c) {
         c.rope.scaling = {rope_scaling_kind::llama3, 8, 64, 4, 4};
       }},
      {"beta_fast", [](auto& c) { c.rope.scaling = {rope_scaling_kind::yarn, 8, 64, 1, 4, 1, 32}; }},
      {"frequency divisors",
       [](auto& c) {
         c.rope.frequency_divisors = {1, 1};
       }},
      {"frequency divisors",
       [](auto& c) {
         c.rope.frequency_divisors = {1, 1, 0, 1};
       }},
  };
  for (const auto& [field, change_field] : broken) {
    auto config = valid_config();
    change_field(config);
    const auto result = validate(config);
    ASSERT_FALSE(result) << field;
    EXPECT_THAT(result.error().message(), HasSubstr(field));
  }
  auto config = valid_config();
  config.experts = experts(8, 2, 32);
  config.ffn_size = 0; // of no layer
  EXPECT_TRUE(validate(config)) << validate(config).error().message();
}

} // namespace
} // namespace paceline::model
