// Kernels that start before the previous one has ended: which launches do, that nothing changes if kernels
// wait for their turn, and that the emulation detects it if they do not.
#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/emulation/thread_block.hpp"
#include "gpu/kernels/streamed_params.hpp"
#include "gpu/owners.hpp"
#include "gpu/step_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

constexpr std::uint32_t num_values = 150; // the last threads of the last block have no value
constexpr launch_shape shape{3, 1, 64, 64 * 16};
constexpr std::size_t bytes = std::size_t{num_values} * 16;
constexpr std::uint64_t num_seeds = 20;

/// Launches of probe_turns over a few places of the device's memory.
class turns_on_gpu {
 public:
  explicit turns_on_gpu(emulated_runtime& api, launch_start earliest = launch_start::early)
      : on{api, 0, "cuda:0", arithmetic::reference, {}, earliest}, queue(on, 0),
        places_(on, memory_kind::on_device, 4 * bytes), host_(on, memory_kind::pinned, bytes) {
    queue.fill(places_.data(), 0, 4 * bytes);
  }

  probe_turns_params params(std::size_t from, std::size_t to, probe_turn how) {
    return {place(from), place(to), num_values, how};
  }
  void launch(std::size_t from, std::size_t to, probe_turn how) {
    const auto said = params(from, to, how);
    queue.launch(kernel_id::probe_turns, shape, &said, sizeof said);
  }
  void add(step_graph& graph, std::size_t from, std::size_t to, probe_turn how) {
    const auto said = params(from, to, how);
    graph.add({kernel_id::probe_turns, shape, &said, sizeof said});
  }
  /// Whether all values at a place are `expected`.
  bool holds(std::size_t at, float expected) {
    queue.copy_out(host_.data(), places_.data() + at * bytes, bytes);
    const auto* const values = reinterpret_cast<const float*>(host_.data());
    for (std::uint32_t i = 0; i < num_values; ++i)
      if (!(values[i * 4] == expected)) return false;
    return true;
  }

  const device_context on;
  command_queue queue;

 private:
  float* place(std::size_t at) { return reinterpret_cast<float*>(places_.data() + at * bytes); }

  memory places_, host_;
};

constexpr std::size_t num_in_chain = 6;

/// Whether a value passes correctly through a chain of launches, back and forth between two places.
bool chain_is_right(emulated_runtime& runtime, probe_turn how, bool as_graph,
                    launch_start earliest = launch_start::early) {
  turns_on_gpu data(runtime, earliest);
  step_graph graph(data.on);
  for (std::size_t i = 0; i < num_in_chain; ++i)
    if (as_graph)
      data.add(graph, i % 2, 1 - i % 2, how);
    else
      data.launch(i % 2, 1 - i % 2, how);
  if (as_graph) {
    graph.instantiate();
    graph.launch(data.queue);
  }
  return data.holds(num_in_chain % 2, num_in_chain);
}

std::size_t num_wrong_chains(probe_turn how, bool as_graph, launch_start earliest = launch_start::early) {
  std::size_t num_wrong = 0;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    emulated_runtime runtime(seed);
    num_wrong += chain_is_right(runtime, how, as_graph, earliest) ? 0 : 1;
    EXPECT_EQ(runtime.num_early(), earliest == launch_start::early ? num_in_chain - 1 : 0);
  }
  return num_wrong;
}

TEST(early_launches, change_nothing_where_kernels_wait_for_their_turn) {
  for (const bool as_graph : {false, true})
    EXPECT_EQ(num_wrong_chains(probe_turn::in_turn, as_graph), 0U) << as_graph;
}

TEST(early_launches, show_what_a_kernel_does_before_its_turn) {
  for (const bool as_graph : {false, true}) {
    EXPECT_GT(num_wrong_chains(probe_turn::reads_early, as_graph), 12U) << "read what was not there yet";
    EXPECT_GT(num_wrong_chains(probe_turn::copies_early, as_graph), 12U)
        << "asked for what was not there yet";
    EXPECT_GT(num_wrong_chains(probe_turn::writes_early, as_graph), 12U) << "overwrote what was to be read";
  }
}

TEST(early_launches, show_a_thread_that_does_not_wait) {
  for (const bool as_graph : {false, true})
    for (const auto how : {probe_turn::some_in_turn, probe_turn::none_in_turn})
      for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
        emulated_runtime runtime(seed);
        EXPECT_THROW(chain_is_right(runtime, how, as_graph), barrier_fault) << "seed " << seed;
      }
}

TEST(early_launches, are_what_makes_those_kernels_wrong) {
  for (const bool as_graph : {false, true})
    for (const auto how : {probe_turn::reads_early, probe_turn::copies_early, probe_turn::writes_early,
                           probe_turn::some_in_turn, probe_turn::none_in_turn})
      EXPECT_EQ(num_wrong_chains(how, as_graph, launch_start::at_end), 0U);
}

TEST(early_launches, begin_before_kernels_further_ahead_have_ended) {
  std::size_t num_wrong = 0;
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    emulated_runtime runtime(seed);
    turns_on_gpu data(runtime);
    data.launch(0, 1, probe_turn::in_turn);
    data.launch(2, 2, probe_turn::in_turn); // independent of both
    data.launch(1, 3, probe_turn::reads_early);
    num_wrong += data.holds(3, 2) ? 0 : 1;
    EXPECT_TRUE(data.holds(1, 1) && data.holds(2, 1));
  }
  EXPECT_GT(num_wrong, 2U) << "read what the first of three writes";
}

TEST(early_launches, come_right_behind_launches_and_behind_nothing_else) {
  emulated_runtime runtime;
  turns_on_gpu data(runtime);
  const memory at(data.on, memory_kind::on_device, 16), pinned(data.on, memory_kind::pinned, 16);
  event point(data.on);
  step_graph graph(data.on);
  data.add(graph, 2, 2, probe_turn::in_turn);
  graph.instantiate();
  const auto together = data.params(2, 2, probe_turn::in_turn);
  const std::vector<std::pair<const char*, std::function<void()>>> others{
      {"a copy to the device", [&] { data.queue.copy_in(at.data(), pinned.data(), 16); }},
      {"a copy to the host", [&] { data.queue.copy_out(pinned.data(), at.data(), 16); }},
      {"a fill", [&] { data.queue.fill(at.data(), 1, 16); }},
      {"a record", [&] { point.record(data.queue); }},
      {"a wait", [&] { data.queue.wait_for(point); }},
      {"a graph", [&] { graph.launch(data.queue); }},
      {"blocks together",
       [&] {
         data.queue.launch_together(kernel_id::probe_turns, {1, 1, 64, 64 * 16}, &together, sizeof together);
       }},
      {"a failed launch",
       [&] {
         runtime.fail("cudaLaunchKernel", 0, failure_kind::other);
         EXPECT_THROW(data.launch(0, 0, probe_turn::in_turn), cuda_failure);
       }},
  };
  std::uint64_t expected = 0;
  float done = 0;
  for (const auto& [name, other] : others) {
    other();
    for (int i = 0; i < 3; ++i) data.launch(0, 0, probe_turn::in_turn), ++done;
    expected += 2;
    EXPECT_EQ(runtime.num_early(), expected) << name;
  }
  EXPECT_TRUE(data.holds(0, done));
}

TEST(early_launches, are_those_of_two_kernels_that_take_turns) {
  emulated_runtime runtime;
  const device_context on{runtime, 0, "cuda:0", arithmetic::reference, {}, launch_start::early};
  for (const kernel_id other :
       {kernel_id::pack_weights, kernel_id::scale_weight_rows, kernel_id::draft_chain}) {
    launch_run run(on);
    EXPECT_EQ(run.start_of(kernel_id::add), launch_start::at_end) << "behind nothing";
    run.launched(kernel_id::add);
    EXPECT_EQ(run.start_of(kernel_id::add), launch_start::early);
    EXPECT_EQ(run.start_of(other), launch_start::at_end);
    run.launched(other);
    EXPECT_EQ(run.start_of(kernel_id::add), launch_start::at_end);
    run.launched(kernel_id::add);
    EXPECT_EQ(run.start_of(kernel_id::stream_q4_k), launch_start::early);
  }
}

TEST(early_launches, of_graphs_have_edges_between_launches_alone) {
  emulated_runtime runtime;
  turns_on_gpu data(runtime);
  const memory pinned(data.on, memory_kind::pinned, bytes);
  step_graph graph(data.on);
  const auto copy = [&](std::size_t at) {
    graph.add(copy_command{pinned.data(), data.params(at, at, probe_turn::in_turn).from, bytes, true});
  };
  data.add(graph, 0, 1, probe_turn::in_turn);
  data.add(graph, 1, 2, probe_turn::in_turn); // early
  copy(2);
  data.add(graph, 2, 1, probe_turn::in_turn);
  data.add(graph, 1, 0, probe_turn::in_turn); // early
  data.add(graph, 0, 3, probe_turn::in_turn); // early
  graph.instantiate();
  for (int time = 0; time < 2; ++time) graph.launch(data.queue);
  EXPECT_EQ(runtime.num_early(), 6U);
  EXPECT_TRUE(data.holds(3, 9)) << "four a launch, and once the way from 0 to 3";
}

TEST(early_launches, have_ended_when_memory_is_given_back) {
  emulated_runtime runtime;
  turns_on_gpu data(runtime);
  std::optional<memory> from(std::in_place, data.on, memory_kind::on_device, bytes);
  data.queue.fill(from->data(), 0, bytes);
  auto params = data.params(0, 1, probe_turn::in_turn);
  params.from = reinterpret_cast<const float*>(from->data());
  data.queue.launch(kernel_id::probe_turns, shape, &params, sizeof params);
  from.reset();
  const memory again(data.on, memory_kind::on_device, bytes); // the same place, filled with NaN
  EXPECT_EQ(reinterpret_cast<const float*>(again.data()), params.from);
  EXPECT_TRUE(data.holds(1, 1));
}

TEST(early_launches, are_refused_where_a_gpu_refuses_them) {
  emulated_runtime runtime;
  turns_on_gpu data(runtime);
  const auto said = data.params(0, 1, probe_turn::in_turn);
  const launch_command early{kernel_id::probe_turns, shape, &said, sizeof said, launch_start::early};
  raw_graph graph = nullptr;
  raw_node copied = nullptr, launched = nullptr, node = nullptr;
  ASSERT_EQ(runtime.make_graph(graph), 0);
  const memory pinned(data.on, memory_kind::pinned, 16);
  ASSERT_EQ(runtime.add_copy(copied, graph, nullptr, {pinned.data(), said.from, 16, true}), 0);
  auto late = early;
  late.start = launch_start::at_end;
  ASSERT_EQ(runtime.add_launch(launched, graph, copied, late), 0);
  EXPECT_NE(runtime.add_launch(node, graph, nullptr, early), 0) << "behind nothing";
  EXPECT_NE(runtime.add_launch(node, graph, copied, early), 0) << "behind a copy";
  EXPECT_EQ(runtime.add_launch(node, graph, launched, early), 0);
  runtime.have_compute_capability(89);
  EXPECT_NE(runtime.add_launch(node, graph, launched, early), 0) << "a GPU that cannot";
  EXPECT_NE(runtime.launch(early, data.queue.raw()), 0);
  EXPECT_EQ(runtime.launch(late, data.queue.raw()), 0);
  runtime.end_graph(graph);
}

} // namespace
} // namespace paceline::gpu::emulation
