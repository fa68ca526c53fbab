#include "runtime/model/loader/weights/expert_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::model {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t hidden = 8, inner = 4;

model_config mixture(architecture arch) {
  model_config config;
  config.arch = arch;
  config.num_layers = 1;
  config.hidden_size = hidden;
  config.experts.routing.num_experts = 3;
  config.experts.ffn_size = inner;
  config.experts.layers = {true};
  return config;
}

TEST(expert_tensors, a_missing_one_is_called_as_the_file_calls_the_others) {
  const std::vector<std::byte> bytes(std::size_t{hidden} * inner * sizeof(float));
  const auto problem_of = [&](architecture arch, const std::string& prefix, const std::string& gate,
                              tensor_role role) {
    const model_config config = mixture(arch);
    expert_tensors tensors;
    const std::string first = prefix + "0." + gate,
                      third = prefix + "2." + gate; // of a file without the second
    for (const auto& [name, expert] : {std::pair{&first, 0U}, {&third, 2U}})
      EXPECT_TRUE(tensors.add({tensor_role::ffn_gate_experts, expert},
                              {*name, {device::tensor_type::f32, inner, hidden, bytes}}, config, 0, "f"));
    const auto taken = tensors.take(role, config, "all of them", "f");
    return taken ? "was accepted" : taken.error().message();
  };
  const std::string qwen = "model.layers.0.mlp.experts.", lfm2 = "layers.0.feed_forward.experts.";
  const auto named = [](const std::string& name) { return HasSubstr("f: tensor '" + name + "' is missing"); };
  EXPECT_THAT(problem_of(architecture::qwen3moe, qwen, "gate_proj.weight", tensor_role::ffn_gate_experts),
              named(qwen + "1.gate_proj.weight"));
  EXPECT_THAT(problem_of(architecture::qwen3moe, qwen, "gate_proj.weight", tensor_role::ffn_down_experts),
              named(qwen + "0.down_proj.weight"));
  EXPECT_THAT(problem_of(architecture::lfm2moe, lfm2, "w1.weight", tensor_role::ffn_up_experts),
              named(lfm2 + "0.w3.weight"));
  expert_tensors none;
  const auto taken =
      none.take(tensor_role::ffn_up_experts, mixture(architecture::qwen3moe), "all of them", "f");
  EXPECT_THAT(taken.error().message(), named("all of them"));
}

} // namespace
} // namespace paceline::model
