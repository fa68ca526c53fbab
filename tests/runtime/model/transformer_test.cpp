// The forward pass of every architecture on tiny models: near a double-precision decoder, and with the same
// bits however the same rows are divided into passes.
#include "tests/runtime/model/transformer_runs.hpp"
#include "tests/support/reference_decoder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>

namespace paceline::test::transformer_test {
namespace {

using device::tensor_type;
using model::architecture;

/// Families and types of KV cells.
class transformer_test : public testing::TestWithParam<std::tuple<architecture, kv_type>> {
 protected:
  static constexpr std::size_t num_tokens = 45;

  tiny_model options(tensor_type type = tensor_type::q4_1) const {
    tiny_model tiny;
    tiny.arch = std::get<architecture>(GetParam());
    tiny.type = type;
    tiny.hidden_size = 64;
    tiny.ffn_size = 96;
    tiny.context_length = 1024;
    tiny.num_layers = tiny.arch == architecture::smollm3 ? 4 : 3; // the fourth is not rotated
    tiny.sliding_window = 6;
    // With these seeds no two experts' scores are so close that rounded cells change a row's choice.
    tiny.seed = tiny.arch == architecture::qwen35moe || tiny.arch == architecture::qwen3next ? 2 : 7;
    return tiny;
  }
  cpu_model_options on_cpu(std::uint32_t num_threads = 1) const {
    cpu_model_options cpu;
    cpu.num_threads = num_threads;
    cpu.kv_type = std::get<kv_type>(GetParam());
    return cpu;
  }
};

/// Error bound of logits, relative to the largest exact logit. f32: chains of up to 96 roundings of 2^-24 in
/// each of about twenty steps. Others: the rounding of a key or value relative to the largest of its head, in
/// each of the three layers, reduced by attention's averaging, plus the same again.
double rounding_of(kv_type type) {
  switch (type) {
  case kv_type::f32:
    return 2e-5;
  case kv_type::f16:
    return 6 * 0x1p-12;
  case kv_type::bf16:
    return 6 * 0x1p-9;
  case kv_type::q8:
    break;
  }
  return 6 * 0.5 / 127;
}

TEST_P(transformer_test, agrees_with_a_double_precision_decoder) {
  const model_file file(options(tensor_type::f32));
  const auto config = model::read_gguf_config(*file.file);
  ASSERT_TRUE(config) << config.error().message();
  const auto weights = model::read_gguf_weights(*file.file, *config);
  ASSERT_TRUE(weights) << weights.error().message();
  const auto tokens = some_tokens(num_tokens, config->vocab_size, 3);
  const auto expected = reference_logits(*config, *weights, tokens);
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::fabs(x));
  ASSERT_GT(largest, 0.01);
  cpu_model_options single = on_cpu();
  single.kv_type = kv_type::f32;
  for (const cpu_model_options& cpu : {single, on_cpu()}) {
    cpu_model model(*file.file, cpu);
    runner run(model, 16, 8, 5);
    run.paged.add_sequence(num_tokens);
    const auto found = run.run(run.rows(0, tokens, 0, num_tokens));
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(static_cast<double>(found[i]), expected[i], rounding_of(cpu.kv_type) * largest)
          << traits_of(cpu.kv_type).name << ", position " << i / config->vocab_size;
  }
}

TEST_P(transformer_test, prefill_in_any_chunks_equals_decoding_one_by_one) {
  const model_file file(options());
  cpu_model single(*file.file, on_cpu());
  const auto tokens = some_tokens(num_tokens, single.get().info().vocab_size, 1);
  const truth expected = compute(single, tokens, 1);
  const std::vector<std::vector<std::size_t>> chunkings{
      {45}, {1, 2, 3, 5, 9, 16, 9}, {33, 12}, {17, 17, 11}, {2, 43}};
  for (const std::uint32_t num_threads : {1U, 2U}) {
    cpu_model model(*file.file, on_cpu(num_threads));
    for (const std::uint32_t block_size : {16U, 5U}) {
      for (const auto& chunks : chunkings) {
        runner run(model, block_size, 20, block_size);
        run.paged.add_sequence(num_tokens);
        std::size_t begin = 0;
        for (const std::size_t chunk : chunks) {
          const auto logits = run.run(run.rows(0, tokens, begin, begin + chunk));
          EXPECT_TRUE(same_bits(
              logits, std::span(expected.logits).subspan(begin * logits.size() / chunk, logits.size())))
              << chunk << " rows from " << begin << ", " << num_threads << " threads, blocks of "
              << block_size;
          begin += chunk;
        }
        for (std::uint32_t p = 0; p < num_tokens; ++p)
          ASSERT_EQ(run.cell(0, p), expected.cells[p]) << "position " << p;
      }
    }
  }
}

TEST_P(transformer_test, a_batch_of_sequences_equals_each_alone) {
  const model_file file(options());
  cpu_model model(*file.file, on_cpu(2));
  const std::size_t lengths[] = {num_tokens, 20, 1, 31};
  std::vector<std::vector<token_id>> tokens;
  std::vector<truth> expected;
  for (const std::size_t length : lengths) {
    tokens.push_back(some_tokens(length, model.get().info().vocab_size, length));
    expected.push_back(compute(model, tokens.back(), 1));
  }
  runner run(model, 16, 20, 4);
  for (const std::size_t length : lengths) run.paged.add_sequence(static_cast<std::uint32_t>(length));
  // The first pass prefills part of each, the others mix decode rows and chunks.
  std::vector<std::size_t> done(4, 0);
  for (const std::vector<std::size_t>& take : std::vector<std::vector<std::size_t>>{
           {9, 3, 0, 5}, {1, 1, 1, 1}, {16, 1, 0, 1}, {1, 15, 0, 17}, {18, 0, 0, 7}}) {
    std::vector<device::batch_entry> rows;
    std::vector<std::span<const float>> wanted;
    for (std::uint32_t s = 0; s < 4; ++s) {
      for (const auto& row : run.rows(s, tokens[s], done[s], done[s] + take[s])) {
        rows.push_back(row);
        wanted.push_back(expected[s].row(row.position.value));
      }
      done[s] += take[s];
    }
    const auto logits = run.run(rows);
    for (std::size_t r = 0; r < rows.size(); ++r)
      EXPECT_TRUE(same_bits(std::span(logits).subspan(r * wanted[r].size(), wanted[r].size()), wanted[r]))
          << "sequence " << rows[r].sequence << " position " << rows[r].position.value;
  }
  for (std::uint32_t s = 0; s < 4; ++s)
    for (std::uint32_t p = 0; p < lengths[s]; ++p) ASSERT_EQ(run.cell(s, p), expected[s].cells[p]);
}

TEST_P(transformer_test, tree_rows_equal_the_chains_of_their_paths_before_and_after_compaction) {
  const model_file file(options());
  cpu_model model(*file.file, on_cpu());
  const std::uint32_t vocab_size = model.get().info().vocab_size;
  constexpr std::uint32_t base = 27;
  const auto prompt = some_tokens(base, vocab_size, 11);
  const std::vector<std::int32_t> parents{-1, -1, 0, 0, 1, 3, 3, 5, 7};
  const auto nodes = some_tokens(parents.size(), vocab_size, 12);
  const auto chain_of = [&](std::int32_t node) {
    std::vector<token_id> path;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
      path.insert(path.begin(), nodes[static_cast<std::size_t>(node)]);
    std::vector<token_id> all = prompt;
    all.insert(all.end(), path.begin(), path.end());
    return all;
  };
  for (const std::uint32_t block_size : {16U, 3U}) {
    runner run(model, block_size, 40, 6);
    run.paged.add_sequence(base + 12);
    run.run(run.rows(0, prompt, 0, base));
    auto rows = run.paged.tree_rows(0, base, parents);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].token = nodes[i];
    const auto logits = run.run(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto chain = chain_of(static_cast<std::int32_t>(i));
      const truth expected = compute(model, chain, chain.size());
      EXPECT_TRUE(
          same_bits(std::span(logits).subspan(i * vocab_size, vocab_size), expected.row(chain.size() - 1)))
          << "node " << i;
      EXPECT_EQ(run.cell(0, base + static_cast<std::uint32_t>(i)), expected.cells.back()) << "node " << i;
    }
    // Node 8 is accepted: 0, 3, 5, 7, 8 move to base .. base + 4, and decoding continues after them.
    const std::uint32_t accepted[] = {0, 3, 5, 7, 8};
    std::vector<device::kv_copy> copies;
    for (std::uint32_t i = 0; i < 5; ++i)
      copies.push_back(run.paged.copy_of(0, base + accepted[i], base + i));
    model.run([&](device::ops& ops) { run.kv->copy(ops, copies); });
    for (std::uint32_t i = 0; i < 5; ++i) run.move_state(0, base + accepted[i], base + i);
    auto chain = chain_of(8);
    chain.push_back(token_id{1});
    const truth expected = compute(model, chain, chain.size());
    for (std::uint32_t p = 0; p < base + 5; ++p)
      EXPECT_EQ(run.cell(0, p), expected.cells[p]) << "position " << p;
    EXPECT_TRUE(same_bits(run.run(run.rows(0, chain, base + 5, base + 6)), expected.row(base + 5)));
  }
}

TEST_P(transformer_test, every_kernel_level_gives_the_same_bits_beyond_one_attention_split) {
  const model_file file(options(tensor_type::q8_0));
  std::vector<float> expected;
  constexpr std::size_t length = 270;
  for (const auto level : {cpu::kernel_level::scalar, cpu::kernel_level::avx2, cpu::kernel_level::avx_vnni,
                           cpu::kernel_level::avx512_vnni}) {
    if (!cpu::choose_kernel_level(level)) continue; // not on this machine; the kernels' own tests emulate it
    cpu_model_options cpu = on_cpu();
    cpu.level = level;
    cpu_model model(*file.file, cpu);
    const auto tokens = some_tokens(length, model.get().info().vocab_size, 8);
    runner run(model, 32, 12, 5);
    run.paged.add_sequence(length);
    const auto logits = run.run(run.rows(0, tokens, 0, length));
    if (expected.empty()) expected = logits;
    EXPECT_TRUE(same_bits(logits, expected)) << to_string(level);
  }
}

TEST_P(transformer_test, taps_and_wanted_rows_change_nothing_else) {
  const model_file file(options());
  cpu_model model(*file.file, on_cpu());
  const auto& info = model.get().info();
  const auto tokens = some_tokens(9, info.vocab_size, 2);
  runner plain(model, 16, 4, 1);
  plain.paged.add_sequence(9);
  const auto expected = plain.run(plain.rows(0, tokens, 0, 9));
  runner tapped(model, 16, 4, 2);
  tapped.paged.add_sequence(9);
  std::vector<std::vector<float>> hidden(info.num_layers + 1, std::vector<float>(9 * info.hidden_size));
  std::vector<model::tap> taps;
  for (std::uint32_t l = 0; l <= info.num_layers; ++l) taps.push_back({layer_index{l}, hidden[l]});
  EXPECT_TRUE(same_bits(tapped.run(tapped.rows(0, tokens, 0, 9), taps), expected));
  for (std::uint32_t l = 0; l < info.num_layers; ++l) EXPECT_FALSE(same_bits(hidden[l], hidden[l + 1]));
  // The taps of a row do not depend on other rows.
  runner alone(model, 16, 4, 3);
  alone.paged.add_sequence(9);
  for (std::uint32_t p = 0; p < 9; ++p) {
    std::vector<float> last(info.hidden_size);
    alone.run(alone.rows(0, tokens, p, p + 1), {{layer_index{info.num_layers}, last}});
    EXPECT_TRUE(same_bits(last, std::span(hidden.back()).subspan(p * last.size(), last.size())))
        << "row " << p;
  }
  runner sparse(model, 16, 4, 4);
  sparse.paged.add_sequence(9);
  const auto logits = sparse.run(sparse.rows(0, tokens, 0, 9), {}, {2, 8});
  EXPECT_TRUE(same_bits(std::span(logits).first(info.vocab_size),
                        std::span(expected).subspan(2 * info.vocab_size, info.vocab_size)));
  EXPECT_TRUE(same_bits(std::span(logits).last(info.vocab_size), std::span(expected).last(info.vocab_size)));
}

TEST_P(transformer_test, a_row_outside_its_blocks_fails_the_pass_and_nothing_else) {
  const model_file file(options());
  cpu_model model(*file.file, on_cpu());
  runner run(model, 16, 4, 1);
  run.paged.add_sequence(20);
  const auto tokens = some_tokens(64, model.get().info().vocab_size, 2);
  EXPECT_THROW(run.run(run.rows(0, tokens, 30, 33)), std::runtime_error); // slot 32 has no block
  auto rows = run.rows(0, tokens, 0, 1);
  rows[0].path_length = 2;
  EXPECT_THROW(run.run(rows), std::runtime_error);
  rows = run.rows(0, tokens, 0, 1);
  rows[0].token = token_id{-1};
  EXPECT_THROW(run.run(rows), std::runtime_error);
  rows[0].token = token_id{static_cast<std::int32_t>(model.get().info().vocab_size)};
  EXPECT_THROW(run.run(rows), std::runtime_error);
  EXPECT_FALSE(std::isnan(run.run(run.rows(0, tokens, 0, 1))[0]));
}

INSTANTIATE_TEST_SUITE_P(
    architectures, transformer_test,
    testing::Combine(testing::Values(architecture::llama, architecture::qwen2, architecture::qwen3,
                                     architecture::qwen3moe, architecture::lfm2, architecture::lfm2moe,
                                     architecture::qwen35, architecture::qwen35moe, architecture::qwen3next,
                                     architecture::granite, architecture::mistral3, architecture::olmo2,
                                     architecture::phi3, architecture::smollm3, architecture::gemma3),
                     testing::Values(kv_type::f16, kv_type::bf16, kv_type::q8)),
    [](const auto& test) {
      return std::string(model::to_string(std::get<0>(test.param))) + '_' +
             std::string(traits_of(std::get<1>(test.param)).name);
    });

} // namespace
} // namespace paceline::test::transformer_test
