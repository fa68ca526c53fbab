// What a row's state costs: the convolutions and gated delta rules of all recurrent layers of a model over
// the rows of one sequence, of which the last ones leave their states. Other work that reads as much memory
// as a pass of a model lies between two runs and is not timed. Counter: MB of the states that are written.
//
//   build/release/bin/state_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
#include "bench/micro/run_benchmarks.hpp"
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/host_buffer.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/model/kv_cells.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::cpu {
namespace {

struct model_shape {
  const char* name;
  std::uint32_t num_layers; ///< recurrent ones
  std::uint32_t num_taps;
  std::uint32_t width;       ///< channels of a convolution
  device::delta_heads heads; ///< num_values 0: the convolution stands alone and has gates
};

constexpr std::size_t cold_bytes = std::size_t{192}
                                   << 20; // beyond any last-level cache of the machines we know

class host_memory final : public device::buffer_memory {
 public:
  std::unique_ptr<device::buffer> allocate(std::uint64_t num_bytes) override {
    return make_host_buffer(num_bytes);
  }
};

/// The recurrent layers of a model: a pool with slots for `num_rows` states beside the one that is continued,
/// and the activations of a pass.
class recurrent_layers {
 public:
  recurrent_layers(const model_shape& shape, std::uint32_t num_rows, std::uint32_t num_written,
                   device::buffer_memory& memory)
      : shape_(shape), cells_(shape_of(shape), 1, 16, memory), rows_(num_rows),
        stride_(shape.width * 3 + 2 * shape.heads.num_values + shape.heads.values_size()),
        x_(num_rows * stride_), weights_(std::size_t{shape.num_taps} * shape.width, 0.3F),
        decay_(shape.heads.num_values, -0.5F), dt_bias_(shape.heads.num_values, 0.1F), cold_(cold_bytes) {
    cells_.make_states(num_rows + 1);
    std::fill_n(cells_.conv_states(0).values, shape_of(shape).states.num_values(), 0.01F); // of slot 0
    rows_.front().read = state_slot{0};
    for (std::uint32_t r = 0; r < num_rows; ++r) {
      if (r > 0) rows_[r].parent = static_cast<std::int32_t>(r) - 1;
      if (r >= num_rows - num_written) rows_[r].write = state_slot{r + 1};
    }
  }

  void pass(device::ops& ops) {
    for (std::uint32_t l = 0; l < shape_.num_layers; ++l) {
      for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = values_[i % values_.size()];
      const auto begin = std::chrono::steady_clock::now();
      convolve(ops, l);
      if (shape_.heads.num_values != 0) apply_rule(ops, l);
      spent_ += std::chrono::steady_clock::now() - begin;
    }
    for (std::size_t i = 0; i < cold_.size(); i += 64) ++cold_[i];
  }

  std::chrono::duration<double> take_time() { return std::exchange(spent_, {}); }
  double state_bytes() const { return static_cast<double>(shape_of(shape_).states.bytes()); }

 private:
  static model::kv_shape shape_of(const model_shape& shape) {
    const std::uint32_t line = shape.heads.num_values == 0 ? 1 : 16; // floats
    const std::uint32_t inputs = ((shape.num_taps - 1) * shape.width + line - 1) / line * line;
    return {1, 1, 16, kv_type::f16, {shape.num_layers, inputs, shape.heads.state_values()}};
  }

  void convolve(device::ops& ops, std::uint32_t layer) {
    device::short_conv_args args;
    args.rows = rows_;
    args.u = x_.data();
    args.out = x_.data() + shape_.width;
    if (shape_.heads.num_values == 0) {
      args.in_gate = args.out;
      args.out_gate = x_.data() + 2 * std::size_t{shape_.width};
    }
    args.stride = stride_;
    args.width = shape_.width;
    args.num_taps = shape_.num_taps;
    args.weights = weights_.data();
    args.states = cells_.conv_states(layer);
    ops.short_conv(args);
  }

  void apply_rule(device::ops& ops, std::uint32_t layer) {
    device::gated_delta_args args;
    args.rows = rows_;
    args.heads = shape_.heads;
    args.x = x_.data() + shape_.width;
    args.beta = x_.data() + 3 * std::size_t{shape_.width};
    args.alpha = args.beta + shape_.heads.num_values;
    args.out = x_.data() + 3 * std::size_t{shape_.width} + 2 * shape_.heads.num_values;
    args.stride = stride_;
    args.decay = decay_.data();
    args.dt_bias = dt_bias_.data();
    args.scale = 1 / std::sqrt(static_cast<float>(shape_.heads.key_dim));
    args.states = cells_.delta_states(layer);
    ops.gated_delta(args);
  }

  model_shape shape_;
  model::kv_cells cells_;
  std::vector<device::row_state> rows_;
  std::size_t stride_;
  std::vector<float> x_;
  std::vector<float> weights_, decay_, dt_bias_;
  std::vector<char> cold_;
  const std::vector<float> values_ = [] {
    std::vector<float> made(4099);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = 0.1F * std::sin(static_cast<float>(i));
    return made;
  }();
  std::chrono::steady_clock::duration spent_{};
};

void states(benchmark::State& state, const model_shape& shape) {
  const auto num_rows = static_cast<std::uint32_t>(state.range(0));
  const auto num_written = static_cast<std::uint32_t>(state.range(1));
  thread_team::options opts;
  opts.num_threads = static_cast<std::uint32_t>(state.range(2));
  thread_team team(opts);
  cpu_ops ops(team, best_kernel_level());
  host_memory memory;
  recurrent_layers layers(shape, num_rows, num_written, memory);
  for (auto _ : state) {
    layers.pass(ops);
    state.SetIterationTime(layers.take_time().count());
  }
  state.counters["MB"] = num_written * layers.state_bytes() * 1e-6;
}

void register_all() {
  const device::delta_heads heads{16, 16, 128, 128, false};
  for (const model_shape& shape :
       {model_shape{"qwen35-0.8b", 18, 4, 6144, heads}, {"lfm2-1.2b", 10, 3, 2048, {}}})
    for (const auto& [rows, written] : {std::pair{1, 1}, {8, 1}, {8, 8}})
      for (const int threads : {1, 2})
        benchmark::RegisterBenchmark((std::string("states/") + shape.name).c_str(), states, shape)
            ->Args({rows, written, threads})
            ->ArgNames({"rows", "written", "threads"})
            ->UseManualTime()
            ->Iterations(60)
            ->Unit(benchmark::kMicrosecond);
}

} // namespace
} // namespace paceline::cpu

int main(int argc, char** argv) {
  paceline::cpu::register_all();
  return paceline::run_benchmarks(argc, argv);
}
