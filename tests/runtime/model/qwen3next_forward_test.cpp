// GGUF files of Qwen3-Next in which queries, keys, values and gates of delta rules are one tensor.
#include "tests/runtime/model/transformer_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace paceline::test::qwen3next_forward_test {
namespace {

std::vector<float> logits_of(const gguf_builder& builder) {
  const auto bytes = builder.build();
  const auto file = model::gguf_file::parse(bytes, "tiny.gguf");
  if (!file) throw std::runtime_error(file.error().message());
  cpu_model model(*file, {});
  runner on(model, 16, 4, 1);
  on.paged.add_sequence(9);
  return on.run(on.rows(0, some_tokens(9, model.get().info().vocab_size, 2), 0, 9));
}

/// For each key head its rows of queries and of keys, then those of its value heads' values and of their
/// gates.
std::vector<std::byte> packed(const gguf_builder::tensor& qkv, const gguf_builder::tensor& gate,
                              const tiny_model& options) {
  const std::size_t row_bytes = gate.data.size() / gate.shape[1], key = options.delta_head_dim;
  const std::size_t keys = key * options.num_key_heads;
  const std::size_t values = key * options.num_value_heads / options.num_key_heads;
  std::vector<std::byte> out;
  const auto add = [&](const gguf_builder::tensor& from, std::size_t first, std::size_t count) {
    const auto begin = from.data.begin() + static_cast<std::ptrdiff_t>(first * row_bytes);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(count * row_bytes));
  };
  for (std::size_t head = 0; head < options.num_key_heads; ++head) {
    add(qkv, head * key, key);
    add(qkv, keys + head * key, key);
    add(qkv, 2 * keys + head * values, values);
    add(gate, head * values, values);
  }
  return out;
}

TEST(qwen3next_forward, one_tensor_with_the_gates_has_the_bits_of_two) {
  for (const auto type : {device::tensor_type::f32, device::tensor_type::q8_0}) {
    const tiny_model options{.arch = model::architecture::qwen3next, .type = type};
    auto builder = make_tiny_gguf(options);
    const auto expected_logits = logits_of(builder);
    const auto named = [&](const std::string& name) {
      return *std::ranges::find(builder.tensors(), name, &gguf_builder::tensor::name);
    };
    const auto qkv = named("blk.0.attn_qkv.weight"), gate = named("blk.0.attn_gate.weight");
    builder.remove_tensor(qkv.name).remove_tensor(gate.name);
    builder.add_tensor("blk.0.ssm_in.weight", qkv.type, {options.hidden_size, qkv.shape[1] + gate.shape[1]},
                       packed(qkv, gate, options));
    EXPECT_TRUE(same_bits(logits_of(builder), expected_logits));
  }
}

} // namespace
} // namespace paceline::test::qwen3next_forward_test
