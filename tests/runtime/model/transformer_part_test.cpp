// A part of a model's layers gives the bits of a file with only these layers.
#include "runtime/base/check.hpp"
#include "runtime/model/transformer.hpp"

#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

namespace paceline::test {
namespace {

using model::architecture;

/// The file without the layers that are not in `layers`, the others numbered from 0.
gguf_builder only_layers(const gguf_builder& whole, const tiny_model& options,
                         std::span<const std::uint32_t> layers) {
  gguf_builder made = whole;
  made.set_uint32(std::string(to_string(options.arch)) + ".block_count",
                  static_cast<std::uint32_t>(layers.size()));
  for (const auto& tensor : whole.tensors())
    if (tensor.name.starts_with("blk.")) made.remove_tensor(tensor.name);
  for (std::uint32_t to = 0; to < layers.size(); ++to) {
    const std::string prefix = "blk." + std::to_string(layers[to]) + ".";
    for (const auto& tensor : whole.tensors())
      if (tensor.name.starts_with(prefix))
        made.add_tensor("blk." + std::to_string(to) + "." + tensor.name.substr(prefix.size()), tensor.type,
                        tensor.shape, tensor.data);
  }
  return made;
}

cpu_model load(const std::vector<std::byte>& bytes) {
  auto file = model::gguf_file::parse(bytes, "tiny.gguf");
  if (!file) throw std::runtime_error(file.error().message());
  return {*file, {}};
}

/// Logits of all rows, in passes of 1, 2, 3 ... rows, and hidden states after the last layer.
std::vector<float> logits_of(cpu_model& on, const model::language_model& runs, std::size_t num_tokens) {
  paged_sequences paged(16, 8, 5);
  paged.add_sequence(static_cast<std::uint32_t>(num_tokens));
  const auto kv = runs.make_kv_storage(8, 16);
  std::vector<block_id> all;
  for (std::uint32_t b = 0; b < 8; ++b) all.emplace_back(b);
  kv->poison(all);
  std::mt19937_64 random(3);
  std::vector<token_id> tokens;
  for (std::size_t i = 0; i < num_tokens; ++i)
    tokens.emplace_back(static_cast<std::int32_t>(random() % runs.info().vocab_size));
  std::vector<float> found;
  for (std::uint32_t begin = 0, count = 1; begin < num_tokens; begin += count, ++count) {
    const auto end = std::min<std::uint32_t>(begin + count, static_cast<std::uint32_t>(num_tokens));
    auto rows = paged.chain_rows(0, begin, end);
    for (auto& row : rows) row.token = tokens[row.position.value];
    std::vector<std::uint32_t> wanted(rows.size());
    std::iota(wanted.begin(), wanted.end(), 0U);
    std::vector<float> logits(rows.size() * runs.info().vocab_size);
    std::vector<float> hidden(rows.size() * runs.info().hidden_size);
    const model::tap last{layer_index{runs.info().num_layers - 1}, hidden};
    on.run([&](device::ops& ops) {
      runs.forward(ops, paged.batch(rows), *kv, {wanted, logits, {&last, 1}});
    });
    found.insert(found.end(), logits.begin(), logits.end());
    found.insert(found.end(), hidden.begin(), hidden.end());
  }
  return found;
}

class transformer_part_test : public testing::TestWithParam<architecture> {};

TEST_P(transformer_part_test, equals_a_model_that_has_no_other_layers) {
  tiny_model options;
  options.arch = GetParam();
  options.type = device::tensor_type::q4_1;
  options.num_layers = 4;
  const gguf_builder whole_file = make_tiny_gguf(options);
  const auto whole_bytes = whole_file.build();
  cpu_model whole = load(whole_bytes);
  std::vector<std::vector<std::uint32_t>> choices{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}};
  // In gemma3 a layer's number determines whether it attends to all positions.
  if (options.arch != architecture::gemma3) choices.insert(choices.end(), {{3}, {0, 3}, {0, 2, 3}});
  for (const auto& layers : choices) {
    SCOPED_TRACE(testing::PrintToString(layers));
    const auto bytes = only_layers(whole_file, options, layers).build();
    cpu_model alone = load(bytes);
    const auto part = whole.get().part_of(layers);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->info().num_layers, layers.size());
    EXPECT_EQ(part->info().vocab_size, whole.get().info().vocab_size);
    EXPECT_EQ(part->info().kv_bytes_per_token, alone.get().info().kv_bytes_per_token);
    EXPECT_EQ(part->info().weights_bytes, 0U) << "they are the whole model's";
    const auto expected = logits_of(alone, alone.get(), 30);
    const auto found = logits_of(whole, *part, 30);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  }
}

TEST_P(transformer_part_test, leaves_the_whole_as_it_is_and_refuses_its_cells) {
  tiny_model options;
  options.arch = GetParam();
  const auto bytes = make_tiny_gguf(options).build();
  cpu_model whole = load(bytes);
  const auto before = logits_of(whole, whole.get(), 20);
  const std::vector<std::uint32_t> first{0};
  const auto part = whole.get().part_of(first);
  logits_of(whole, *part, 20);
  EXPECT_EQ(logits_of(whole, whole.get(), 20), before);
  EXPECT_THROW(whole.get().part_of(std::vector<std::uint32_t>{}), check_failure);
  EXPECT_THROW(whole.get().part_of(std::vector<std::uint32_t>{2}), check_failure);
  EXPECT_THROW(whole.get().part_of(std::vector<std::uint32_t>{1, 0}), check_failure);
  const auto cells = whole.get().make_kv_storage(8, 16);
  EXPECT_THROW(whole.run([&](device::ops& ops) { part->forward(ops, {}, *cells, {}); }), std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(architectures, transformer_part_test,
                         testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                         architecture::gemma3),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

} // namespace
} // namespace paceline::test
