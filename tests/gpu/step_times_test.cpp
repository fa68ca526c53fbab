#include "gpu/emulation/emulated_runtime.hpp"
#include "gpu/step_queue.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace paceline::gpu {
namespace {

/// Steps of one copy.
struct copies {
  explicit copies(emulation::emulated_runtime& api) : on{api, 0, "cuda:0"} {}

  void note() { steps.copy_in(there.data(), here.data(), here.size_bytes()); }
  void finish() {
    note();
    steps.finish();
  }

  device_context on;
  command_queue queue{on, 0};
  step_queue steps{queue};
  memory there{on, memory_kind::on_device, 64}, here{on, memory_kind::pinned, 64};
};

constexpr auto pause = std::chrono::milliseconds(300);
constexpr auto pause_ns = std::chrono::nanoseconds(pause).count();

TEST(step_times, nobody_asked) {
  emulation::emulated_runtime runtime;
  copies data(runtime);
  data.finish();
  EXPECT_EQ(runtime.num_calls("cudaEventElapsedTime"), 0U);
}

TEST(step_times, steps_that_the_host_waits_for_are_timed_and_no_others) {
  emulation::emulated_runtime runtime;
  copies data(runtime);
  step_clock clock;
  data.on.clock = &clock;
  for (std::uint64_t step = 1; step <= 3; ++step) { // as commands, and as a graph
    data.finish();
    EXPECT_EQ(clock.num_steps, step);
  }
  EXPECT_GT(clock.launching_ns, 0);
  EXPECT_GE(clock.busy_ns, clock.launching_ns) << "here the work is done while it is launched";
  const auto busy = clock.busy_ns.load();
  data.note();
  data.steps.issue(); // without waiting for it
  std::this_thread::sleep_for(pause);
  data.finish();
  EXPECT_EQ(clock.num_steps, 4U);
  EXPECT_LT(clock.busy_ns - busy, pause_ns) << "what was between is no step's";
}

TEST(step_times, a_step_that_goes_on_directly_is_timed_from_its_first_command) {
  emulation::emulated_runtime runtime;
  copies data(runtime);
  step_clock clock;
  data.on.clock = &clock;
  data.steps.go_on_directly();
  data.note();
  std::this_thread::sleep_for(pause);
  data.finish();
  EXPECT_EQ(clock.num_steps, 1U);
  EXPECT_GE(clock.busy_ns, pause_ns);
  EXPECT_LT(clock.launching_ns, pause_ns) << "until the first command";
}

} // namespace
} // namespace paceline::gpu
