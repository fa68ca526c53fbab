#include "runtime/model/loader/gguf/gguf_model.hpp"

#include "tests/support/opened_gguf.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace paceline::model {
namespace {

using device::tensor_type;
using test::gguf_builder;
using test::make_tiny_gguf;
using test::open;
using test::problem;
using testing::HasSubstr;

TEST(gguf_experts, experts_come_from_one_tensor_or_two) {
  const test::tiny_model options{.arch = architecture::qwen3moe, .dense_layer = -1};
  for (const bool fused : {false, true}) {
    test::tiny_model tiny = options;
    tiny.fused_experts = fused;
    const auto bytes = make_tiny_gguf(tiny).remove("qwen3moe.expert_weights_norm").build();
    const auto file = gguf_file::parse(bytes, "x.gguf");
    const auto config = read_gguf_config(*file);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->num_dense_layers(), 0U);
    EXPECT_EQ(config->experts.routing.num_experts, 8U);
    EXPECT_EQ(config->experts.routing.num_used, 3U);
    EXPECT_TRUE(config->experts.routing.normalised);
    const auto weights = read_gguf_weights(*file, *config);
    ASSERT_TRUE(weights) << weights.error().message();
    std::uint64_t stored = 0;
    for (const auto& tensor : file->tensors()) stored += tensor.data.size();
    EXPECT_EQ(weights->total_bytes(), stored);
    const auto& whole =
        *file->find_tensor(fused ? "blk.1.ffn_gate_up_exps.weight" : "blk.1.ffn_up_exps.weight");
    const auto up = weights->experts(tensor_role::ffn_up_experts, 1);
    ASSERT_EQ(up.size(), 8U);
    const std::size_t size = std::size_t{32} * 32 * sizeof(float); // of one matrix
    EXPECT_EQ(up[5].tensor.bytes.data(), whole.data.data() + (fused ? 11 : 5) * size);
    EXPECT_EQ(up[5].tensor.bytes.size(), size);
  }
}

TEST(gguf_experts, refuses_experts_that_do_not_fit) {
  const auto with = [](const std::function<void(gguf_builder&)>& change) {
    auto file = make_tiny_gguf({.arch = architecture::qwen3moe, .dense_layer = -1});
    change(file);
    return problem(file).message();
  };
  const std::vector<std::byte> some(std::size_t{32} * 32 * 8 * sizeof(float));
  EXPECT_THAT(with([](auto& f) { f.remove_tensor("blk.0.ffn_up_exps.weight"); }),
              HasSubstr("blk.0.ffn_up_exps.weight' is missing"));
  EXPECT_THAT(with([&](auto& f) {
                f.remove_tensor("blk.0.ffn_up_exps.weight");
                f.add_tensor("blk.0.ffn_up_exps.weight", tensor_type::f32, {32, 32, 7},
                             {some.begin(), some.begin() + 32 * 32 * 7 * 4});
              }),
              HasSubstr("must have the shape [8][32][32], has [7][32][32]"));
  EXPECT_THAT(with([&](auto& f) {
                f.add_tensor("blk.0.ffn_gate_up_exps.weight", tensor_type::f32, {32, 64, 8},
                             std::vector<std::byte>(2 * some.size()));
              }),
              HasSubstr("occurs twice"));
  EXPECT_THAT(
      with([](auto& f) {
        f.remove_tensor("blk.0.ffn_gate_inp.weight");
        f.add_tensor("blk.0.ffn_gate_inp.weight", tensor_type::q8_0, {32, 8}, std::vector<std::byte>(8 * 34));
      }),
      HasSubstr("must be of a floating-point type"));
  EXPECT_THAT(with([](auto& f) { f.set_uint32("qwen3moe.expert_gating_func", 2); }),
              HasSubstr("expert_gating_func' must be 1"));
  EXPECT_THAT(with([](auto& f) { f.set_uint32("qwen3moe.expert_group_count", 4); }),
              HasSubstr("expert_group_count' must be at most 1"));
  EXPECT_THAT(with([](auto& f) { f.set_uint32("qwen3moe.expert_shared_count", 1); }),
              HasSubstr("expert_shared_count' must be 0"));
}

TEST(gguf_experts, sizes_without_a_key_are_those_of_the_tensors) {
  for (const bool fused : {false, true}) {
    auto file = make_tiny_gguf({.arch = architecture::qwen3moe, .fused_experts = fused});
    const auto config = open(file.remove("qwen3moe.expert_feed_forward_length"));
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->experts.ffn_size, 32U);
    EXPECT_EQ(config->ffn_size, 64U);
  }
  auto shared = make_tiny_gguf({.arch = architecture::qwen35moe, .shared_ffn_size = 96});
  shared.remove("qwen35moe.expert_shared_feed_forward_length");
  const auto config = open(shared);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->experts.shared_ffn_size, 96U);
}

TEST(gguf_experts, ollamas_name_of_the_normalisation_is_known) {
  auto file = make_tiny_gguf({.arch = architecture::qwen3moe, .normalised_experts = false});
  file.remove("qwen3moe.expert_weights_norm");
  EXPECT_TRUE(open(file)->experts.routing.normalised) << "in files without a key";
  EXPECT_FALSE(open(file.set_bool("qwen3moe.norm_top_k_prob", false))->experts.routing.normalised);
}

TEST(gguf_experts, a_layer_with_any_tensor_of_experts_needs_all_of_them) {
  const auto layer_with_only = [](const std::vector<std::string>& kept, bool fused = false) {
    auto file = make_tiny_gguf({.arch = architecture::qwen3moe, .dense_layer = -1, .fused_experts = fused});
    for (const std::string part : {"gate_inp", "gate_exps", "up_exps", "down_exps", "gate_up_exps"})
      if (std::ranges::find(kept, part) == kept.end()) file.remove_tensor("blk.1.ffn_" + part + ".weight");
    return problem(file).message();
  };
  const auto no_router = HasSubstr("tensor 'blk.1.ffn_gate_inp.weight' is missing");
  EXPECT_THAT(layer_with_only({"gate_exps", "up_exps", "down_exps"}), no_router);
  EXPECT_THAT(layer_with_only({"gate_up_exps", "down_exps"}, true), no_router);
  for (const char* const one : {"gate_exps", "up_exps", "down_exps"})
    EXPECT_THAT(layer_with_only({one}), no_router) << one;
  EXPECT_THAT(layer_with_only({"gate_up_exps"}, true), no_router);
  EXPECT_THAT(layer_with_only({"gate_inp"}), HasSubstr("tensor 'blk.1.ffn_gate_exps.weight' is missing"));
}

TEST(gguf_experts, counts_must_be_those_of_the_tensors) {
  const auto with = [](const char* key, std::uint32_t value, std::uint32_t num_experts = 8) {
    const test::tiny_model options{
        .arch = architecture::qwen3moe, .num_experts = num_experts, .dense_layer = -1};
    return problem(make_tiny_gguf(options).set_uint32(key, value)).message();
  };
  const char* const count = "qwen3moe.expert_count";
  for (const std::uint32_t wrong : {7U, 9U, 1U << 31, 0xffffffffU})
    EXPECT_THAT(with(count, wrong), HasSubstr("'qwen3moe.expert_count' is " + std::to_string(wrong) +
                                              ", and tensor 'blk.0.ffn_gate_inp.weight' is for 8 experts"));
  EXPECT_THAT(with(count, 0), HasSubstr("'qwen3moe.expert_count' must be at least 1"));
  const char* const used = "qwen3moe.expert_used_count";
  for (const std::uint32_t wrong : {0U, 9U, 0xffffffffU})
    EXPECT_THAT(with(used, wrong),
                HasSubstr("'qwen3moe.expert_used_count' must be 1 to 8, is " + std::to_string(wrong)));
  EXPECT_THAT(with(used, 33, 64), HasSubstr("num_used_experts must be 1 to 32, is 33"));
  EXPECT_EQ(with(used, 8), "was accepted");
}

TEST(gguf_experts, a_tensor_with_other_rows_or_columns_is_refused) {
  const auto with = [](const char* name, const std::vector<std::uint64_t>& shape) {
    auto file = make_tiny_gguf({.arch = architecture::qwen3moe, .dense_layer = -1});
    file.remove_tensor(name);
    std::uint64_t values = 1;
    for (const std::uint64_t size : shape) values *= size;
    file.add_tensor(name, tensor_type::f32, shape, std::vector<std::byte>(values * sizeof(float)));
    return problem(file).message();
  };
  EXPECT_THAT(with("blk.1.ffn_down_exps.weight", {64, 32, 8}),
              HasSubstr("must have the shape [8][32][32], has [8][32][64]"));
  EXPECT_THAT(with("blk.1.ffn_down_exps.weight", {32, 64, 8}),
              HasSubstr("must have the shape [8][32][32], has [8][64][32]"));
  EXPECT_THAT(with("blk.1.ffn_up_exps.weight", {32, 256}),
              HasSubstr("must have the shape [8][32][32], has [1][256][32]"));
  EXPECT_THAT(with("blk.1.ffn_gate_inp.weight", {64, 8}), HasSubstr("must have the shape [8][32]"));
}

} // namespace
} // namespace paceline::model
