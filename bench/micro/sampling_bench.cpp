// What a sampled token costs apart from the model: one row through the pipeline. The row imitates a trained
// model's (a few likely tokens above a wide bell of unlikely ones). Counters: rows a second; the budget of a
// round is set in docs/performance.md.
#include "runtime/sampling/pipeline.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace paceline::sampling {
namespace {

std::vector<float> model_like_row(std::size_t size) {
  std::mt19937 engine(1);
  std::normal_distribution<float> bell(0.0F, 2.5F);
  std::vector<float> row(size);
  for (float& logit : row) logit = bell(engine);
  for (int rank = 0; rank < 20; ++rank) row[engine() % size] = 16.0F - 0.5F * static_cast<float>(rank);
  return row;
}

/// Copies the row, which the pipeline overwrites, and chooses; subtract `copy_row` for the pipeline alone.
void run(benchmark::State& state, const sampling_params& params) {
  const auto row = model_like_row(static_cast<std::size_t>(state.range(0)));
  std::vector<float> scratch(row.size());
  token_counts counts;
  for (std::int32_t token = 0; token < 1000; ++token)
    counts.add_output(token_id{token * 7 % static_cast<std::int32_t>(row.size())});
  const pipeline sampling(params, {});
  // Verify before timing: choosing at once equals processing, then sampling.
  for (std::uint32_t position = 0; position < 20; ++position) {
    const row_context at{.committed = &counts, .position = token_position{position}};
    std::vector<float> scores = row;
    sampling.process(scores, at);
    scratch = row;
    if (sampling.process_and_sample(scratch, at) != sampling.sample(scores, at.position))
      state.SkipWithError("results differ");
  }
  std::uint32_t position = 0;
  for (auto _ : state) {
    scratch = row;
    benchmark::DoNotOptimize(
        sampling.process_and_sample(scratch, {.committed = &counts, .position = token_position{position++}}));
  }
}

void copy_row(benchmark::State& state) {
  const auto row = model_like_row(static_cast<std::size_t>(state.range(0)));
  std::vector<float> scratch(row.size());
  for (auto _ : state) {
    scratch = row;
    benchmark::DoNotOptimize(scratch.data());
  }
}

void greedy(benchmark::State& state) { run(state, {.temperature = 0}); }
void plain(benchmark::State& state) { run(state, {}); }
void penalised(benchmark::State& state) { run(state, {.presence_penalty = 0.5F}); }
void top_k(benchmark::State& state) { run(state, {.top_k = 50}); }
void top_k_top_p(benchmark::State& state) { run(state, {.top_k = 50, .top_p = 0.95F}); }
void top_p(benchmark::State& state) { run(state, {.top_p = 0.95F}); }
void min_p(benchmark::State& state) { run(state, {.min_p = 0.05F}); }

#define PACELINE_VOCABULARIES Arg(49152)->Arg(151936)->Unit(benchmark::kMicrosecond)
BENCHMARK(copy_row)->PACELINE_VOCABULARIES;
BENCHMARK(greedy)->PACELINE_VOCABULARIES;
BENCHMARK(plain)->PACELINE_VOCABULARIES;
BENCHMARK(penalised)->PACELINE_VOCABULARIES;
BENCHMARK(top_k)->PACELINE_VOCABULARIES;
BENCHMARK(top_k_top_p)->PACELINE_VOCABULARIES;
BENCHMARK(top_p)->PACELINE_VOCABULARIES;
BENCHMARK(min_p)->PACELINE_VOCABULARIES;

} // namespace
} // namespace paceline::sampling

BENCHMARK_MAIN();
