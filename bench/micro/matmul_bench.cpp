// How fast weights stream through the matmul kernels: a product of one to 512 rows with a matrix larger
// than the caches, beside a plain read of as many bytes. Counters: GB/s of weights, and GMAC/s.
//
//   build/release/bin/matmul_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
//
// Interleaving spreads a machine's other load over all cases; read the medians.
#include "bench/micro/run_benchmarks.hpp"
#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/matmul.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/cpu/weight_arena.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace paceline::cpu {
namespace {

using device::tensor_type;

weight_arena arena;
constexpr std::size_t matrix_bytes = std::size_t{96}
                                     << 20; // beyond any last-level cache of the machines we know

/// A matrix of about matrix_bytes; its values do not matter for the time.
const device::matrix& matrix_of(tensor_type type, std::uint32_t num_cols) {
  static std::map<std::pair<tensor_type, std::uint32_t>, std::unique_ptr<const device::matrix>> made;
  auto& matrix = made[{type, num_cols}];
  if (!matrix) {
    const auto traits = *device::traits_of(type);
    const std::size_t row_bytes = num_cols / traits.block_values * traits.block_bytes;
    const std::size_t num_rows = matrix_bytes / row_bytes / 16 * 16;
    std::vector<std::byte> bytes(num_rows * row_bytes);
    std::mt19937 random(1);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(random() & 0x3bU); // no infinities among the scales
    matrix = *pack_matrix("bench", {type, num_rows, num_cols, bytes}, arena);
  }
  return *matrix;
}

void product(benchmark::State& state, tensor_type type, kernel_level level, std::uint32_t num_cols) {
  if (!machine_runs(level)) {
    state.SkipWithError("this machine does not run the level");
    return;
  }
  const auto num_rows = static_cast<std::uint32_t>(state.range(0));
  thread_team::options opts;
  opts.num_threads = static_cast<std::uint32_t>(state.range(1));
  thread_team team(opts);
  matmul_runner runner(team, matmul_kernels_of(level));
  const device::matrix& weights = matrix_of(type, num_cols);
  std::vector<float> x(std::size_t{num_rows} * num_cols, 0.5f), y(std::size_t{num_rows} * weights.num_rows());
  device::matmul_output output;
  output.weights = &weights;
  output.y = y.data();
  output.y_stride = weights.num_rows();
  device::matmul_args args;
  args.x = x.data();
  args.x_stride = num_cols;
  args.num_rows = num_rows;
  args.num_cols = num_cols;
  args.outputs = {&output, 1};
  for (auto _ : state) {
    runner.run(args);
    benchmark::DoNotOptimize(y.data());
  }
  const double seconds_of_bytes =
      static_cast<double>(state.iterations()) * static_cast<double>(weights.size_bytes());
  const double products = static_cast<double>(state.iterations()) * num_rows * weights.num_rows() * num_cols;
  state.counters["GB/s"] = benchmark::Counter(seconds_of_bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] = benchmark::Counter(products * 1e-9, benchmark::Counter::kIsRate);
}

/// The ceiling: a sum over the same bytes.
void plain_read(benchmark::State& state) {
  thread_team::options opts;
  opts.num_threads = static_cast<std::uint32_t>(state.range(0));
  thread_team team(opts);
  static const std::vector<std::uint64_t> data(matrix_bytes / 8, 1);
  constexpr std::size_t chunk = (std::size_t{256} << 10) / 8;
  for (auto _ : state)
    team.parallel_for(static_cast<std::uint32_t>(data.size() / chunk), [&](std::uint32_t c, std::uint32_t) {
      std::uint64_t sums[8] = {};
      for (std::size_t i = 0; i < chunk; i += 8)
        for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += data[c * chunk + i + lane];
      benchmark::DoNotOptimize(sums);
    });
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * matrix_bytes * 1e-9,
                                              benchmark::Counter::kIsRate);
}

void register_all() {
  for (const int threads : {1, 2})
    benchmark::RegisterBenchmark("plain_read", plain_read)
        ->Arg(threads)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  const kernel_level level = best_kernel_level();
  for (const auto type :
       {tensor_type::q4_1, tensor_type::q8_0, tensor_type::q6_k, tensor_type::q4_k, tensor_type::q5_0,
        tensor_type::q5_1, tensor_type::q4_0, tensor_type::q5_k, tensor_type::iq4_nl, tensor_type::iq4_xs,
        tensor_type::q2_k, tensor_type::q3_k, tensor_type::f16})
    for (const auto& [name, num_cols] : {std::pair("matmul/", 2048U), std::pair("matmul_wide/", 8192U)})
      for (const int threads : {1, 2})
        for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 512})
          benchmark::RegisterBenchmark((name + std::string(device::traits_of(type)->name)).c_str(), product,
                                       type, level, num_cols)
              ->Args({rows, threads})
              ->ArgNames({"rows", "threads"})
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
}

} // namespace
} // namespace paceline::cpu

int main(int argc, char** argv) {
  paceline::cpu::register_all();
  return paceline::run_benchmarks(argc, argv);
}
