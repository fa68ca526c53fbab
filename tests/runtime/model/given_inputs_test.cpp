// Rows whose input is given. With the vectors of tokens, they have the bits of these tokens' rows.
#include "runtime/device/op_embed.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/model/transformer.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <stdexcept>

namespace paceline::test {
namespace {

using device::tensor_type;
using model::architecture;

class given_inputs_test : public testing::TestWithParam<architecture> {
 protected:
  given_inputs_test() : bytes_(make_tiny_gguf({.arch = GetParam(), .type = tensor_type::q8_0}).build()) {
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 2, .level = {}, .kv_type = kv_type::f32});
    paged_.add_sequence(40);
  }

  /// The inputs of the first layer for these tokens.
  std::vector<float> inputs_of(const std::vector<token_id>& tokens) {
    const auto& model = target_->get();
    const std::uint32_t width = model.info().hidden_size;
    std::vector<float> out(tokens.size() * width);
    target_->run([&](device::ops& ops) {
      ops.embed(
          {model.weights().token_embedding.get(), tokens, out.data(), width, model.config().embedding_scale});
    });
    return out;
  }

  /// Logits of all rows, in new cells: a text of 9 tokens, then `rows`.
  std::vector<float> logits_of(const std::vector<device::batch_entry>& rows, std::span<const float> inputs) {
    const std::uint32_t width = target_->get().info().hidden_size;
    const auto kv = target_->make_kv(20, 4);
    auto text = paged_.chain_rows(0, 0, 9);
    for (auto& row : text) row.token = token_id{static_cast<std::int32_t>(row.position.value * 7 + 3)};
    target_->forward(paged_.batch(text), *kv, {});
    device::row_batch batch = paged_.batch(rows);
    batch.inputs = inputs.data();
    batch.num_inputs = static_cast<std::uint32_t>(inputs.size() / width);
    std::vector<std::uint32_t> all(rows.size());
    std::iota(all.begin(), all.end(), 0U);
    std::vector<float> logits(rows.size() * vocab_size());
    target_->forward(batch, *kv, {all, logits, {}});
    return logits;
  }
  std::uint32_t vocab_size() const { return target_->get().info().vocab_size; }
  token_id given(std::size_t input) const {
    return token_id{static_cast<std::int32_t>(vocab_size() + input)};
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  paged_sequences paged_{4, 20, 3};
};

TEST_P(given_inputs_test, have_the_bits_of_tokens_with_the_same_vectors) {
  const std::vector<token_id> tokens{token_id{40}, token_id{2}, token_id{271}};
  const auto inputs = inputs_of(tokens);
  // A token that is followed by a group and two nodes. One of the nodes is also followed by a group.
  auto rows = paged_.tree_rows(0, 9, {-1, -1, -1, 2, 3, 0, 5});
  const std::vector<std::size_t> inputs_of_rows{3, 3, 0, 1, 2, 0, 1}; // 3: a token
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t input = inputs_of_rows[r];
    rows[r].token = input < tokens.size() ? tokens[input] : token_id{static_cast<std::int32_t>(100 + r)};
  }
  const auto expected = logits_of(rows, {});
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (inputs_of_rows[r] < tokens.size()) rows[r].token = given(inputs_of_rows[r]);
  EXPECT_EQ(logits_of(rows, inputs), expected);
  std::swap(rows[3].token, rows[4].token);
  EXPECT_NE(logits_of(rows, inputs), expected);
}

TEST_P(given_inputs_test, beyond_their_number_are_refused) {
  auto rows = paged_.chain_rows(0, 9, 10);
  const auto inputs = inputs_of({token_id{1}});
  rows[0].token = given(1);
  EXPECT_THROW(logits_of(rows, inputs), std::exception);
  rows[0].token = given(0);
  EXPECT_THROW(logits_of(rows, {}), std::exception);
  EXPECT_NO_THROW(logits_of(rows, inputs));
}

INSTANTIATE_TEST_SUITE_P(families, given_inputs_test,
                         testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                         architecture::gemma3),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

} // namespace
} // namespace paceline::test
