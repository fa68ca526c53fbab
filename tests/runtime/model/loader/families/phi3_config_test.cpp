// Phi-3's files: fused projections, LongRoPE's lists, partial rotation and windows.
#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "tests/support/opened_gguf.hpp"
#include "tests/support/opened_hf.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_hf_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace paceline::model::phi3_test {
namespace {

using device::tensor_type;
using test::gguf_builder;
using testing::ElementsAre;
using testing::HasSubstr;

gguf_builder tiny(std::uint32_t context_length = 64) {
  return test::make_tiny_gguf({.arch = architecture::phi3, .context_length = context_length});
}

TEST(phi3_gguf, has_its_rotation_and_window) {
  const auto config = test::open(tiny());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->layout, rope_layout::half_split);
  EXPECT_EQ(config->num_rotated(), 6U);
  EXPECT_EQ(config->sliding_window, 4U);
  EXPECT_THAT(config->local_layers, ElementsAre(true, true));
  EXPECT_FLOAT_EQ(static_cast<float>(config->rope.scaling.magnitude), std::sqrt(1.2F));
  EXPECT_EQ(config->rope_of(0).frequency_divisors, config->rope.frequency_divisors);
  const std::string window = "phi3.attention.sliding_window";
  for (const std::uint32_t unused : {0U, 64U})
    EXPECT_EQ(test::open(tiny().set_uint32(window, unused))->sliding_window, 0U) << unused;
}

TEST(phi3_gguf, the_models_context_chooses_the_list_of_divisors) {
  EXPECT_THAT(test::open(tiny())->rope.frequency_divisors, ElementsAre(1.5F, 2.5F, 3.5F));
  EXPECT_THAT(test::open(tiny(16))->rope.frequency_divisors, ElementsAre(1, 1.125F, 1.25F));
  EXPECT_THAT(test::open(tiny().set_string("phi3.rope.scaling.type", "longrope"))->rope.frequency_divisors,
              ElementsAre(1.5F, 2.5F, 3.5F));
  auto plain = tiny();
  plain.remove_tensor("rope_factors_long.weight").remove_tensor("rope_factors_short.weight");
  const auto config = test::open(plain);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_TRUE(config->rope.frequency_divisors.empty());
  EXPECT_EQ(config->rope.scaling.magnitude, 1);
}

TEST(phi3_gguf, rows_of_a_fused_tensor_go_to_their_roles) {
  const auto builder = tiny();
  const auto bytes = builder.build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  const auto config = read_gguf_config(*file);
  const auto weights = read_gguf_weights(*file, *config);
  ASSERT_TRUE(weights) << weights.error().message();
  const auto whole = [&](std::string_view name) { return file->find_tensor(name)->data; };
  const auto expect_rows = [&](std::span<const std::byte> from, std::size_t first, tensor_role role,
                               std::size_t count) {
    const auto& view = weights->at(role, 1);
    EXPECT_EQ(view.tensor.num_rows, count) << to_string(role);
    EXPECT_TRUE(std::ranges::equal(view.tensor.bytes, from.subspan(first * 32 * 4, count * 32 * 4)))
        << to_string(role);
  };
  const auto qkv = whole("blk.1.attn_qkv.weight"), gate_up = whole("blk.1.ffn_up.weight");
  expect_rows(qkv, 0, tensor_role::q, 32);
  expect_rows(qkv, 32, tensor_role::k, 16);
  expect_rows(qkv, 48, tensor_role::v, 16);
  expect_rows(gate_up, 0, tensor_role::ffn_gate, 64);
  expect_rows(gate_up, 64, tensor_role::ffn_up, 64);
  std::uint64_t total = 0;
  for (const auto& tensor : file->tensors())
    if (!tensor.name.starts_with("rope_factors")) total += tensor.data.size();
  EXPECT_EQ(weights->total_bytes(), total);
}

std::string refusal(const gguf_builder& file) { return test::problem(file).message(); }

TEST(phi3_gguf, refuses_what_does_not_fit) {
  const std::string qkv = "blk.1.attn_qkv.weight";
  EXPECT_THAT(refusal(tiny().remove_tensor(qkv)), HasSubstr("'blk.1.attn_qkv.weight' is missing"));
  const std::vector<std::byte> row(32 * 4);
  EXPECT_THAT(refusal(tiny().remove_tensor(qkv).add_tensor("blk.1.attn_q.bias", tensor_type::f32, {32}, row)),
              HasSubstr("'blk.1.attn_q.bias' has no meaning"));
  EXPECT_THAT(refusal(tiny().remove_tensor(qkv).add_tensor(qkv, tensor_type::f32, {32}, row)),
              HasSubstr("'blk.1.attn_qkv.weight' must have the shape [64][32], has [1][32]"));
  EXPECT_THAT(refusal(tiny().add_tensor("blk.1.attn_v.weight", tensor_type::f32, {32, 16},
                                        std::vector<std::byte>(16 * 32 * 4))),
              HasSubstr("occurs twice"));
  const auto values = [](std::size_t rows) { return std::vector<std::byte>(rows * 32 * 4); };
  EXPECT_THAT(refusal(tiny()
                          .remove_tensor(qkv)
                          .add_tensor("blk.1.attn_v.weight", tensor_type::f32, {32, 16}, values(16))
                          .add_tensor(qkv, tensor_type::f32, {32, 64}, values(64))),
              HasSubstr("'blk.1.attn_qkv.weight' occurs twice"));
  EXPECT_THAT(refusal(tiny().remove_tensor(qkv).add_tensor(qkv, tensor_type::f32, {32, 65}, values(65))),
              HasSubstr("must have the shape [64][32], has [65][32]"));
  EXPECT_THAT(refusal(tiny().remove_tensor(qkv).add_tensor(qkv, tensor_type::f32, {32, 32, 2}, values(64))),
              HasSubstr("'blk.1.attn_qkv.weight' must have 1 or 2 dimensions"));
  EXPECT_THAT(refusal(tiny().remove_tensor("rope_factors_short.weight")),
              HasSubstr("tensor 'rope_factors_short.weight' is missing"));
  EXPECT_THAT(refusal(tiny().remove_tensor("rope_factors_long.weight")),
              HasSubstr("tensor 'rope_factors_long.weight' is missing"));
  auto reshaped = tiny();
  reshaped.remove_tensor("rope_factors_long.weight");
  reshaped.add_tensor("rope_factors_long.weight", tensor_type::f32, {32}, row);
  EXPECT_THAT(refusal(reshaped), HasSubstr("'rope_factors_long.weight' must be F32 of shape [3]"));
  EXPECT_THAT(refusal(tiny().set_float32("phi3.rope.scaling.attn_factor", -1)),
              HasSubstr("magnitude must be above 0"));
  EXPECT_THAT(refusal(tiny().set_uint32("phi3.rope.dimension_count", 5)),
              HasSubstr("'phi3.rope.dimension_count' must be even"));
  EXPECT_THAT(refusal(tiny().set_uint32("phi3.expert_count", 8)), HasSubstr("mixture of experts"));
}

expected<model_config> read(const std::string& extra = "", const char* model_type = "phi3") {
  const std::string text = "{" + extra + R"("model_type":")" + model_type +
                           R"(","vocab_size":288,"hidden_size":32,"max_position_embeddings":64,
      "num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":64})";
  return test::read_hf(text);
}

std::string problem(const std::string& extra) { return test::refusal_of(read(extra)); }

/// Rotary settings with lists for six of eight values, and further members.
std::string longrope(const std::string& more = "", const char* key = "rope_scaling") {
  return R"("partial_rotary_factor":0.75,")" + std::string(key) +
         R"(":{"type":"longrope","long_factor":[1.5,2.5,3.5],"short_factor":[1,1.125,1.25])" + more + "},";
}

TEST(phi3_hf, the_models_context_chooses_the_list_of_divisors) {
  const auto config = read(R"("original_max_position_embeddings":16,)" + longrope());
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_THAT(config->rope.frequency_divisors, ElementsAre(1.5F, 2.5F, 3.5F));
  EXPECT_DOUBLE_EQ(config->rope.scaling.magnitude, std::sqrt(1.5));
  EXPECT_EQ(config->num_rotated(), 6U);
  const auto brief = read(longrope(R"(,"original_max_position_embeddings":64)", "rope_parameters"));
  ASSERT_TRUE(brief) << brief.error().message();
  EXPECT_THAT(brief->rope.frequency_divisors, ElementsAre(1, 1.125F, 1.25F));
  EXPECT_EQ(brief->rope.scaling.magnitude, 1);
  const auto stated = longrope(R"(,"original_max_position_embeddings":16,"factor":16)");
  EXPECT_DOUBLE_EQ(read(stated)->rope.scaling.magnitude, std::sqrt(2.0));
  const auto factor = longrope(R"(,"original_max_position_embeddings":16,"attention_factor":1.25)");
  EXPECT_DOUBLE_EQ(read(factor)->rope.scaling.magnitude, 1.25);
}

TEST(phi3_hf, other_families_have_longrope_for_whole_heads) {
  const auto whole = [](const std::string& more) {
    return read(R"("rope_scaling":{"type":"longrope","long_factor":[1.5,2.5,3.5,4.5],
                   "short_factor":[1,1.125,1.25,1.5])" +
                    more + "},",
                "llama");
  };
  const auto stated = whole(R"(,"original_max_position_embeddings":16,"attention_factor":1.25)");
  ASSERT_TRUE(stated) << stated.error().message();
  EXPECT_EQ(stated->rope.scaling.magnitude, 1.25);
  EXPECT_THAT(stated->rope.frequency_divisors, ElementsAre(1.5F, 2.5F, 3.5F, 4.5F));
  EXPECT_THAT(whole("")->rope.frequency_divisors, ElementsAre(1, 1.125F, 1.25F, 1.5F))
      << "it is not extended";
  EXPECT_THAT(test::refusal_of(read(longrope(), "llama")), HasSubstr("'partial_rotary_factor' must be 1"));
}

TEST(phi3_hf, the_configs_own_original_context_is_the_one_that_counts) {
  const auto both = read(R"("original_max_position_embeddings":16,)" +
                         longrope(R"(,"original_max_position_embeddings":64)"));
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_THAT(both->rope.frequency_divisors, ElementsAre(1.5F, 2.5F, 3.5F));
  const auto neither = read(longrope());
  ASSERT_TRUE(neither) << neither.error().message();
  EXPECT_THAT(neither->rope.frequency_divisors, ElementsAre(1, 1.125F, 1.25F)) << "4096, of the class";
  EXPECT_EQ(neither->rope.scaling.magnitude, 1);
}

TEST(phi3_hf, settings_have_the_defaults_of_its_class) {
  const auto config = read();
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->norm_epsilon, 1e-5F);
  EXPECT_EQ(config->num_kv_heads, 4U);
  EXPECT_EQ(config->sliding_window, 0U);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_THAT(read(R"("sliding_window":20,)")->local_layers, ElementsAre(true, true));
  EXPECT_EQ(read(R"("sliding_window":64,)")->sliding_window, 0U) << "no text fills it";
}

TEST(phi3_hf, refuses_what_does_not_fit) {
  EXPECT_THAT(problem(longrope(R"(,"original_max_position_embeddings":1)")), HasSubstr("must be at least 2"));
  EXPECT_THAT(problem(R"("original_max_position_embeddings":16,"rope_scaling":{"type":"longrope"},)"),
              HasSubstr("'long_factor' must be"));
  EXPECT_THAT(problem(R"("original_max_position_embeddings":16,"rope_scaling":{"type":"su",
                          "long_factor":[1,2],"short_factor":[1,2]},)"),
              HasSubstr("'long_factor' must have one element for each of the 4 rotated pairs"));
  EXPECT_THAT(problem(R"("original_max_position_embeddings":16,"rope_scaling":{"type":"su",
                          "long_factor":[1,2,0,3],"short_factor":[]},)"),
              HasSubstr("frequency divisors must be above 0"));
  EXPECT_THAT(problem(R"("rope_scaling":{"type":"linear","factor":2},)"),
              HasSubstr("'rope_scaling' must be of type 'default' or 'longrope'"));
  EXPECT_THAT(problem(R"("sliding_window":0,)"), HasSubstr("'sliding_window' must be at least 1"));
}

TEST(phi3_hf, refuses_fused_matrices_in_fp8) {
  const test::scratch_folder folder;
  test::write_tiny_hf({.arch = architecture::phi3, .hidden_size = 64, .head_dim = 16}, folder / "model", 1,
                      {test::fp8_scales::rows});
  const auto directory = hf_directory::open(folder / "model");
  ASSERT_TRUE(directory) << directory.error().message();
  const auto weights = read_hf_weights(*directory);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code(), errc::unsupported);
  EXPECT_THAT(weights.error().message(), HasSubstr("proj.weight' must not be FP8"));
}

} // namespace
} // namespace paceline::model::phi3_test
