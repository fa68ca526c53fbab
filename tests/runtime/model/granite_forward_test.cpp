// The factor of logits is applied to the weights of the final norm. It is not in the states that heads read.
#include "tests/runtime/model/transformer_runs.hpp"

#include <gtest/gtest.h>

namespace paceline::test {
namespace {

struct made {
  std::vector<float> logits, normed;
};

/// The results for a text, with logits divided by `divisor`.
made run(float divisor) {
  auto builder = make_tiny_gguf({.arch = model::architecture::granite, .type = device::tensor_type::q8_0});
  builder.set_float32("granite.logit_scale", divisor);
  const auto bytes = builder.build();
  const auto file = model::gguf_file::parse(bytes, "tiny.gguf");
  if (!file) throw std::runtime_error(file.error().message());
  cpu_model model(*file, {});
  const auto& info = model.get().info();
  runner on(model, 16, 4, 1);
  on.paged.add_sequence(9);
  made out;
  out.normed.resize(9 * info.hidden_size);
  const auto tokens = some_tokens(9, info.vocab_size, 2);
  out.logits = on.run(on.rows(0, tokens, 0, 9), {{layer_index{info.num_layers}, out.normed}});
  return out;
}

TEST(granite_forward, the_factor_of_logits_is_in_logits_only) {
  const made whole = run(1), quarter = run(4);
  EXPECT_TRUE(same_bits(whole.normed, quarter.normed));
  ASSERT_EQ(whole.logits.size(), quarter.logits.size());
  for (std::size_t i = 0; i < whole.logits.size(); ++i)
    ASSERT_EQ(quarter.logits[i], whole.logits[i] / 4) << "a power of two changes no rounding";
}

} // namespace
} // namespace paceline::test
