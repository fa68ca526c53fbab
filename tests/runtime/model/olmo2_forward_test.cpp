// Values that a norm behind a block emphasises are in the residual stream, which the next blocks of olmo2
// read as it is: the smaller values beside them must survive its quantisation.
#include "runtime/device/stored_block.hpp"
#include "tests/runtime/model/transformer_runs.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline::test {
namespace {

using device::tensor_type;

constexpr std::size_t num_tokens = 12;

std::vector<std::byte> with_outliers(std::vector<std::byte> weights) {
  for (std::size_t at = 7 * sizeof(float); at < weights.size(); at += 20 * sizeof(float)) {
    float value;
    std::memcpy(&value, weights.data() + at, sizeof(value));
    value *= 8;
    std::memcpy(weights.data() + at, &value, sizeof(value));
  }
  return weights;
}

bool reads_stream(const std::string& name) {
  for (const char* const part : {"attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"})
    if (name == "blk.1." + std::string(part) + ".weight") return true;
  return false;
}

/// A model whose first blocks emphasise some values. The second layer's matrices that read the stream are in
/// Q8_0 or have the same values in F32; the others are in F32.
gguf_builder emphasising(bool in_f32) {
  auto out = make_tiny_gguf(
      {.arch = model::architecture::olmo2, .type = tensor_type::q8_0, .hidden_size = 64, .ffn_size = 96});
  const std::vector<gguf_builder::tensor> all(out.tensors().begin(), out.tensors().end());
  for (const auto& tensor : all) {
    auto data = tensor.data;
    auto type = tensor.type;
    if (tensor.name.starts_with("blk.0.post_")) {
      data = with_outliers(std::move(data));
    } else if (type == tensor_type::q8_0 && (in_f32 || !reads_stream(tensor.name))) {
      std::vector<float> values(tensor.shape[0] * tensor.shape[1]);
      device::dequantize(type, data, values);
      const auto bytes = std::as_bytes(std::span(values));
      data.assign(bytes.begin(), bytes.end());
      type = tensor_type::f32;
    }
    out.remove_tensor(tensor.name).add_tensor(tensor.name, type, tensor.shape, std::move(data));
  }
  return out;
}

/// The residual stream behind the last layer.
std::vector<float> stream_of(const gguf_builder& builder) {
  const auto bytes = builder.build();
  const auto file = model::gguf_file::parse(bytes, "tiny.gguf");
  if (!file) throw std::runtime_error(file.error().message());
  cpu_model model(*file, {1, {}, kv_type::f32});
  const auto& info = model.get().info();
  runner on(model, 16, 4, 1);
  on.paged.add_sequence(num_tokens);
  std::vector<float> out(num_tokens * info.hidden_size);
  const auto tokens = some_tokens(num_tokens, info.vocab_size, 2);
  on.run(on.rows(0, tokens, 0, num_tokens), {{layer_index{info.num_layers - 1}, out}});
  return out;
}

TEST(olmo2_forward, emphasised_values_leave_room_for_the_others) {
  const auto exact = stream_of(emphasising(true)), found = stream_of(emphasising(false));
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(exact[i]), 2);
    size += std::pow(static_cast<double>(exact[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / size), 2e-4);
}

} // namespace
} // namespace paceline::test
