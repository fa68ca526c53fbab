// How fast attention reads cached cells: rows of one sequence behind a context, over layers that together are
// larger than the caches (cold) or over one (warm). Counters: GB/s of keys and values, and GMAC/s.
//
//   build/release/bin/attention_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
#include "bench/micro/run_benchmarks.hpp"
#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/row_runner.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::cpu {
namespace {

struct head_shape {
  const char* name;
  std::uint32_t num_heads, num_kv_heads, head_dim;
};

constexpr std::uint32_t block_size = 16;
constexpr std::size_t cold_bytes = std::size_t{192}
                                   << 20; // beyond any last-level cache of the machines we know

/// The layers of one sequence: float16 cells, blocks in a shuffled order, as `model::kv_cells` lays them out.
class cached_layers {
 public:
  cached_layers(const head_shape& shape, std::uint32_t num_positions, std::size_t min_bytes) {
    const std::uint32_t num_blocks = (num_positions + block_size - 1) / block_size;
    for (std::uint32_t b = 0; b < num_blocks; ++b) blocks_.push_back(block_id{b * 7919 % num_blocks});
    const std::size_t block_values = std::size_t{block_size} * shape.num_kv_heads * shape.head_dim;
    const std::size_t num_layers = min_bytes / (4 * block_values * num_blocks) + 1;
    cells_.assign(2 * block_values * num_blocks * num_layers, 0x3800); // 0.5
    for (std::size_t l = 0; l < num_layers; ++l) {
      device::kv_layer layer;
      layer.keys = cells_.data() + 2 * l * block_values;
      layer.values = cells_.data() + (2 * l + 1) * block_values;
      layer.heads_per_block = static_cast<std::uint32_t>(2 * num_layers * shape.num_kv_heads);
      layer.num_blocks = num_blocks;
      layer.block_size = block_size;
      layer.num_heads = shape.num_kv_heads;
      layer.head_dim = shape.head_dim;
      layers_.push_back(layer);
    }
  }
  const std::vector<block_id>& blocks() const { return blocks_; }
  const device::kv_layer& next() { return layers_[at_++ % layers_.size()]; }

 private:
  std::vector<block_id> blocks_;
  std::vector<std::uint16_t> cells_;
  std::vector<device::kv_layer> layers_;
  std::size_t at_ = 0;
};

void attention(benchmark::State& state, const head_shape& shape, bool cold) {
  const auto num_rows = static_cast<std::uint32_t>(state.range(0));
  const auto context = static_cast<std::uint32_t>(state.range(1));
  thread_team::options opts;
  opts.num_threads = static_cast<std::uint32_t>(state.range(2));
  thread_team team(opts);
  row_runner runner(team, best_kernel_level());
  cached_layers layers(shape, context + num_rows, cold ? cold_bytes : 1);
  std::vector<device::batch_entry> rows(num_rows);
  for (std::uint32_t r = 0; r < num_rows; ++r)
    rows[r].position = token_position{context + r}, rows[r].slot = kv_slot{context + r};
  const device::sequence_kv sequence{layers.blocks()};
  const device::row_batch batch{rows, {&sequence, 1}, {}};
  const std::size_t width = std::size_t{shape.num_heads} * shape.head_dim;
  std::vector<float> queries(num_rows * width), out(num_rows * width);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = std::sin(static_cast<float>(i));
  for (auto _ : state) {
    device::attention_args args;
    args.batch = &batch;
    args.layer = layers.next();
    args.queries = queries.data();
    args.query_stride = args.out_stride = width;
    args.out = out.data();
    args.num_heads = shape.num_heads;
    args.scale = 0.125F;
    runner.attention(args);
    benchmark::DoNotOptimize(out.data());
  }
  const double calls = static_cast<double>(state.iterations());
  const double cells = calls * 2 * context * shape.head_dim;
  state.counters["GB/s"] = benchmark::Counter(cells * shape.num_kv_heads * 2e-9, benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] =
      benchmark::Counter(cells * shape.num_heads * num_rows * 1e-9, benchmark::Counter::kIsRate);
}

void register_all() {
  for (const head_shape& shape :
       {head_shape{"smollm2", 9, 3, 64}, {"qwen", 14, 2, 64}, {"gemma3", 4, 1, 256}})
    for (const bool cold : {false, true})
      for (const int rows : {1, 2, 4, 8, 16})
        for (const int context : {256, 1024})
          for (const int threads : {1, 2})
            benchmark::RegisterBenchmark(
                ("attention/" + std::string(shape.name) + (cold ? "/cold" : "/warm")).c_str(), attention,
                shape, cold)
                ->Args({rows, context, threads})
                ->ArgNames({"rows", "context", "threads"})
                ->UseRealTime()
                ->Unit(benchmark::kMicrosecond);
}

} // namespace
} // namespace paceline::cpu

int main(int argc, char** argv) {
  paceline::cpu::register_all();
  return paceline::run_benchmarks(argc, argv);
}
