// Logits of all positions of a text, for architecture_parity.py.
//
//   logit_dump MODEL TOKENS.bin ROWS_OF_A_PASS OUT.bin
//
// TOKENS.bin: int32 ids, n of them. OUT.bin: float32 [n][vocabulary]. KV cells are float32.
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/token_file.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <numeric>
#include <optional>
#include <vector>

namespace paceline::test {
namespace {

constexpr std::uint32_t block_size = 16;

std::vector<float> logits_of(cpu_model& model, const std::vector<token_id>& tokens, std::uint32_t at_a_time) {
  const auto end = static_cast<std::uint32_t>(tokens.size());
  const std::uint32_t num_blocks = (end + block_size - 1) / block_size;
  paged_sequences paged(block_size, num_blocks, 1);
  paged.add_sequence(num_blocks * block_size);
  const auto kv = model.make_kv(num_blocks, block_size);
  const std::size_t vocabulary = model.get().info().vocab_size;
  kv->make_states(2);
  std::uint32_t num_passes = 0;
  std::vector<float> all(tokens.size() * vocabulary);
  for (std::uint32_t begin = 0; begin < end; begin += at_a_time) {
    auto rows = paged.chain_rows(0, begin, std::min(end, begin + at_a_time));
    for (auto& row : rows) row.token = tokens[row.position.value];
    std::vector<std::uint32_t> wanted(rows.size());
    std::iota(wanted.begin(), wanted.end(), 0U);
    const auto out = std::span(all).subspan(begin * vocabulary, rows.size() * vocabulary);
    auto batch = paged.batch(rows);
    // Two slots, in turn: the state of the last pass and that of this one.
    const auto before = begin == 0 ? std::nullopt : std::optional(state_slot{num_passes % 2});
    const auto states = chain_states(rows.size(), before, state_slot{++num_passes % 2});
    batch.states = states;
    model.forward(batch, *kv, {wanted, out, {}});
  }
  return all;
}

} // namespace
} // namespace paceline::test

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("logit_dump MODEL TOKENS.bin ROWS_OF_A_PASS OUT.bin\n", stderr);
    return 2;
  }
  try {
    paceline::test::cpu_model_options options;
    options.kv_type = paceline::kv_type::f32;
    auto model = paceline::test::cpu_model::open(argv[1], options);
    const auto tokens = paceline::test::read_tokens(argv[2]);
    const auto at_a_time = static_cast<std::uint32_t>(std::max(1, std::atoi(argv[3])));
    const auto logits = paceline::test::logits_of(model, tokens, at_a_time);
    std::ofstream(argv[4], std::ios::binary)
        .write(reinterpret_cast<const char*>(logits.data()),
               static_cast<std::streamsize>(logits.size() * sizeof(float)));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "logit_dump: %s\n", failure.what());
    return 1;
  }
  return 0;
}
