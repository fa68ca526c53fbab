#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"

#include "runtime/model/rope_frequencies.hpp"
#include "tests/support/opened_gguf.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>

namespace paceline::model::gguf_model_test {
namespace {

using device::tensor_type;
using test::gguf_builder;
using test::make_tiny_gguf;
using test::open;
using test::problem;
using testing::HasSubstr;

gguf_builder tiny(architecture arch = architecture::llama) { return make_tiny_gguf({.arch = arch}); }

const architecture all_architectures[] = {
    architecture::llama,     architecture::qwen2,   architecture::qwen3,    architecture::qwen3moe,
    architecture::lfm2,      architecture::lfm2moe, architecture::qwen35,   architecture::qwen35moe,
    architecture::qwen3next, architecture::granite, architecture::mistral3, architecture::phi3,
    architecture::smollm3,   architecture::olmo2,   architecture::gemma3};

/// Families whose layers have no norm on the heads of Q and K.
constexpr bool leaves_heads(architecture arch) {
  return arch == architecture::llama || arch == architecture::qwen2 || arch == architecture::granite ||
         arch == architecture::mistral3 || arch == architecture::phi3 || arch == architecture::smollm3;
}

TEST(gguf_model, every_architecture_opens) {
  for (const auto arch : all_architectures) {
    const auto config = open(tiny(arch));
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->arch, arch);
    EXPECT_EQ(config->vocab_size, 288U);
    EXPECT_EQ(config->hidden_size, 32U);
    EXPECT_EQ(config->num_layers, 2U);
    EXPECT_EQ(config->q_size(), 32U);
    EXPECT_EQ(config->kv_size(), 16U);
    EXPECT_EQ(config->ffn_size, 64U);
    EXPECT_TRUE(config->tied_embeddings);
    EXPECT_EQ(config->layout == rope_layout::interleaved, test::is_permuted(arch));
    EXPECT_EQ(config->qkv_bias, arch == architecture::qwen2);
    EXPECT_EQ(config->qk_norm, !leaves_heads(arch));
    EXPECT_EQ(config->num_expert_layers(), traits_of(arch).has_experts ? 1U : 0U);
    EXPECT_EQ(config->post_norms, arch == architecture::gemma3 || arch == architecture::olmo2);
    EXPECT_EQ(config->pre_norms, arch != architecture::olmo2);
    EXPECT_FLOAT_EQ(config->attention_scale, arch == architecture::granite ? 0.25F : 1 / std::sqrt(8.0F));
  }
}

TEST(gguf_model, every_tensor_type_opens) {
  for (const auto type :
       {tensor_type::f16, tensor_type::bf16, tensor_type::q4_0, tensor_type::q4_1, tensor_type::q5_0,
        tensor_type::q5_1, tensor_type::q8_0, tensor_type::q2_k, tensor_type::q3_k, tensor_type::q4_k,
        tensor_type::q5_k, tensor_type::q6_k, tensor_type::iq4_nl, tensor_type::iq4_xs}) {
    const auto config =
        open(make_tiny_gguf({.type = type, .hidden_size = 256, .head_dim = 64, .ffn_size = 256}));
    EXPECT_TRUE(config) << config.error().message();
  }
}

TEST(gguf_model, weights_keep_the_file_open_and_know_their_size) {
  const test::scratch_folder folder;
  const auto path = folder / "model.gguf";
  make_tiny_gguf({.tied_embeddings = false}).write(path);
  auto file = gguf_file::open(path);
  ASSERT_TRUE(file);
  const auto config = read_gguf_config(*file);
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->tied_embeddings);
  std::uint64_t bytes = 0;
  for (const auto& tensor : file->tensors()) bytes += tensor.data.size();
  const auto read = read_gguf_weights(*file, *config);
  ASSERT_TRUE(read);
  const auto& output = read->at(tensor_role::output);
  ASSERT_TRUE(read->read(output.tensor.bytes));
  const std::vector<std::byte> before(output.tensor.bytes.begin(), output.tensor.bytes.end());
  file = error(errc::internal, "closed");
  ASSERT_TRUE(read->read(output.tensor.bytes)) << "the file is still open";
  EXPECT_TRUE(std::equal(before.begin(), before.end(), output.tensor.bytes.begin()));
  EXPECT_TRUE(std::ranges::any_of(before, [](std::byte b) { return b != std::byte{}; }));
  EXPECT_EQ(read->total_bytes(), bytes);
}

TEST(gguf_model, a_tied_head_is_the_embedding) {
  const auto bytes = tiny().build();
  const auto file = gguf_file::parse(bytes, "x.gguf");
  const auto weights = read_gguf_weights(*file, *read_gguf_config(*file));
  ASSERT_TRUE(weights);
  EXPECT_EQ(weights->at(tensor_role::output).tensor.bytes.data(),
            weights->at(tensor_role::token_embedding).tensor.bytes.data());
  EXPECT_TRUE(weights->at(tensor_role::q_bias, 0).empty());
  EXPECT_EQ(weights->at(tensor_role::ffn_down, 1).tensor.num_cols, 64U);
  EXPECT_EQ(weights->at(tensor_role::attention_norm, 1).floats().size(), 32U);
}

TEST(gguf_model, gemma_alternates_local_and_global_layers) {
  const auto config = open(make_tiny_gguf({.arch = architecture::gemma3, .num_layers = 4}));
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->sliding_window, 4U);
  EXPECT_THAT(config->local_layers, testing::ElementsAre(true, false, true, false));
  EXPECT_EQ(config->rope.theta, 10000);
  EXPECT_EQ(config->rope_of(0).theta, 1000);
  EXPECT_FLOAT_EQ(config->embedding_scale, std::sqrt(32.0F));
  EXPECT_EQ(config->activation, gate_activation::gelu_tanh);
  auto flags = tiny(architecture::gemma3);
  flags.set_int32s("gemma3.attention.sliding_window_pattern", std::vector<std::int32_t>{0, 1});
  EXPECT_THAT(open(flags)->local_layers, testing::ElementsAre(false, true));
  auto defaults = make_tiny_gguf({.arch = architecture::gemma3, .num_layers = 6});
  defaults.remove("gemma3.attention.sliding_window_pattern").remove("gemma3.rope.freq_base_swa");
  EXPECT_THAT(open(defaults)->local_layers, testing::ElementsAre(true, true, true, true, true, false));
  EXPECT_EQ(open(defaults)->local_rope.theta, 10000);
}

TEST(gguf_model, rope_scaling_is_read) {
  auto builder = tiny(architecture::qwen2);
  builder.set_string("qwen2.rope.scaling.type", "yarn").set_float32("qwen2.rope.scaling.factor", 4);
  builder.set_uint32("qwen2.rope.scaling.original_context_length", 32);
  auto config = open(builder);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::yarn);
  EXPECT_EQ(config->rope.scaling.original_context_length, 32U);
  EXPECT_DOUBLE_EQ(config->rope.scaling.magnitude, yarn_magnitude(4));
  builder.set_float32("qwen2.rope.scaling.yarn_attn_factor", 1.5F);
  EXPECT_EQ(open(builder)->rope.scaling.magnitude, 1.5) << "in place of its own";
  builder.set_float32("qwen2.rope.scaling.yarn_attn_factor", 1);
  EXPECT_DOUBLE_EQ(open(builder)->rope.scaling.magnitude, yarn_magnitude(4)) << "files say so for 'none'";
  builder.set_float32("qwen2.rope.scaling.attn_factor", 2);
  EXPECT_DOUBLE_EQ(open(builder)->rope.scaling.magnitude, 2 * yarn_magnitude(4));
  config = open(tiny().set_float32("llama.rope.scaling.factor", 2));
  EXPECT_EQ(config->rope.scaling.kind, rope_scaling_kind::linear);
  config = open(tiny().set_float32("llama.rope.scale_linear", 3));
  EXPECT_EQ(config->rope.scaling.factor, 3);
  EXPECT_THAT(problem(tiny().set_string("llama.rope.scaling.type", "longrope")).message(),
              HasSubstr("'longrope'"));
}

TEST(gguf_model, llama_3_scaling_comes_as_a_tensor) {
  const std::vector<float> divisors = {1, 1, 2, 8};
  const auto bytes = std::as_bytes(std::span(divisors));
  auto builder = tiny();
  builder.add_tensor("rope_freqs.weight", tensor_type::f32, {4}, {bytes.begin(), bytes.end()});
  const auto config = open(builder);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rope.frequency_divisors, divisors);
  builder.remove_tensor("rope_freqs.weight");
  builder.add_tensor("rope_freqs.weight", tensor_type::f32, {2}, {bytes.begin(), bytes.begin() + 8});
  EXPECT_THAT(problem(builder).message(), HasSubstr("'rope_freqs.weight' must be F32 of shape [4]"));
}

TEST(gguf_model, what_is_not_supported_is_refused_by_name) {
  const std::pair<const char*, std::function<void(gguf_builder&)>> cases[] = {
      {"'mamba'; supported are llama, qwen2, qwen3",
       [](auto& f) { f.set_string("general.architecture", "mamba"); }},
      {"'qwen2moe' (a mixture of experts)",
       [](auto& f) { f.set_string("general.architecture", "qwen2moe"); }},
      {"'qwen2vl' (a vision model)", [](auto& f) { f.set_string("general.architecture", "qwen2vl"); }},
      {"'t5' (an encoder)", [](auto& f) { f.set_string("general.architecture", "t5"); }},
      {"LoRA adapter", [](auto& f) { f.set_string("general.type", "adapter"); }},
      {"'mmproj'", [](auto& f) { f.set_string("general.type", "mmproj"); }},
      {"mixture of experts, which is supported for qwen3moe",
       [](auto& f) { f.set_uint32("llama.expert_count", 8); }},
      {"value_length", [](auto& f) { f.set_uint32("llama.attention.value_length", 16); }},
      {"embeds texts", [](auto& f) { f.set_bool("llama.attention.causal", false); }},
      {"soft caps", [](auto& f) { f.set_float32("llama.final_logit_softcapping", 30); }},
      {"'blk.0.ffn_up.bias' has no meaning",
       [](auto& f) {
         f.add_tensor("blk.0.ffn_up.bias", tensor_type::f32, {64}, std::vector<std::byte>(256));
       }},
  };
  for (const auto& [text, change] : cases) {
    auto builder = tiny();
    change(builder);
    EXPECT_EQ(problem(builder).code(), errc::unsupported) << text;
    EXPECT_THAT(problem(builder).message(), HasSubstr(text));
  }
}

TEST(gguf_model, a_corrupted_hyper_parameter_is_named) {
  for (const auto arch : all_architectures) {
    const std::string prefix(to_string(arch));
    for (const char* name : {"context_length", "embedding_length", "block_count", "feed_forward_length",
                             "attention.head_count", "attention.head_count_kv", "attention.key_length"}) {
      const auto key = prefix + "." + name;
      for (const std::uint32_t value : {0U, 0x7fffffffU, 0xffffffffU})
        EXPECT_NE(problem(tiny(arch).set_uint32(key, value)).code(), errc::internal) << key << " " << value;
      EXPECT_THAT(problem(tiny(arch).set_string(key, "8")).message(), HasSubstr("'" + key + "' must be"));
      EXPECT_NE(problem(tiny(arch).set_uint64(key, std::uint64_t{1} << 33)).code(), errc::internal) << key;
      EXPECT_NE(problem(tiny(arch).set_int32(key, -1)).code(), errc::internal) << key;
    }
    for (const char* name : {"attention.layer_norm_rms_epsilon", "rope.freq_base"})
      for (const float value : {0.0F, -1.0F, std::nanf(""), 1e38F})
        EXPECT_NE(problem(tiny(arch).set_float32(prefix + "." + name, value)).code(), errc::internal)
            << name << value;
  }
  EXPECT_THAT(problem(tiny().remove("llama.block_count")).message(),
              HasSubstr("'llama.block_count' is missing"));
  EXPECT_NE(
      problem(tiny(architecture::gemma3).set_uint32("gemma3.attention.sliding_window_pattern", 0)).code(),
      errc::internal);
}

TEST(gguf_model, every_tensor_must_be_there_with_its_shape) {
  for (const auto arch : all_architectures) {
    const auto builder = tiny(arch);
    for (const auto& tensor : builder.tensors()) {
      auto without = builder;
      without.remove_tensor(tensor.name);
      EXPECT_NE(problem(without).code(), errc::internal) << tensor.name;
      if (tensor.name.starts_with("rope_factors")) continue; // the one that is not used may have any
      auto reshaped = without;
      auto shape = tensor.shape;
      shape[0] *= 2;
      reshaped.add_tensor(tensor.name, tensor_type::f16, shape, tensor.data); // as many bytes
      EXPECT_THAT(problem(reshaped).message(), HasSubstr("'" + tensor.name + "' must have the shape"))
          << tensor.name;
    }
  }
  auto without = tiny();
  EXPECT_THAT(problem(without.remove_tensor("blk.1.attn_k.weight")
                          .add_tensor("extra", tensor_type::f32, {1}, std::vector<std::byte>(4)))
                  .message(),
              HasSubstr("'extra' has no meaning"));
}

TEST(gguf_model, layer_numbers_are_canonical_and_in_range) {
  const std::vector<std::byte> data(32 * 4);
  EXPECT_THAT(problem(tiny().add_tensor("blk.2.attn_norm.weight", tensor_type::f32, {32}, data)).message(),
              HasSubstr("layer 2 of a model with 2 layers"));
  for (const auto* name : {"blk.01.attn_norm.weight", "blk..attn_norm.weight", "blk.-1.attn_norm.weight",
                           "blk.99999999999.attn_norm.weight", "blk.1", "blk.1.", "blk.1.output_norm.weight"})
    EXPECT_THAT(problem(tiny().add_tensor(name, tensor_type::f32, {32}, data)).message(),
                HasSubstr("has no meaning"))
        << name;
}

TEST(gguf_model, norms_may_not_be_quantised) {
  auto builder = tiny();
  builder.remove_tensor("output_norm.weight");
  builder.add_tensor("output_norm.weight", tensor_type::q4_0, {32}, std::vector<std::byte>(18));
  EXPECT_THAT(problem(builder).message(),
              HasSubstr("'output_norm.weight' must be F32, F16 or BF16, is Q4_0"));
}

} // namespace
} // namespace paceline::model::gguf_model_test
