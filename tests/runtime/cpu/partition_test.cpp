// Tenants of one partition.
#include "runtime/cpu/partition.hpp"

#include "runtime/cpu/cpu_device.hpp"
#include "runtime/device/op_elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <span>

namespace paceline::cpu {
namespace {

using device::fence;
using device::ops;
using device::stream_priority;

std::unique_ptr<cpu_device> device_of(std::uint32_t num_threads) {
  cpu_device_options opts;
  opts.partitions.resize(1);
  opts.partitions[0].num_threads = num_threads;
  return std::move(*cpu_device::make(opts));
}

/// An op that is a parallel loop.
void compute_a_loop(ops& on, std::span<float> values) {
  device::add_args args;
  args.y = values.data(), args.x = values.data();
  args.num_rows = 16;
  args.width = static_cast<std::uint32_t>(values.size()) / args.num_rows;
  args.y_stride = args.x_stride = args.width;
  on.add(args);
}
constexpr std::size_t loop_values = 16384;
constexpr int loops_without_hope = 200000; // so that a failing test does not hang

TEST(partition, a_program_stands_aside_for_another_tenants_between_two_loops) {
  auto device = device_of(2);
  std::vector<bool> turns;
  auto stream = device->make_stream(
      "target:a", 0,
      {.tenant = device::tenant_id{1}, .on_turn = [&](bool computes) { turns.push_back(computes); }});
  auto other = device->make_stream("draft:b", 0, {stream_priority::low, device::tenant_id{2}, {}});
  std::promise<void> begun;
  fence short_one;
  std::chrono::nanoseconds aside{};
  bool went_aside = false, kept = true;
  const fence long_one = stream->submit("verify", {}, [&](ops& o) {
    const auto values = o.scratch(loop_values);
    std::ranges::fill(values, 0.0F);
    begun.set_value();
    for (int i = 0; i < loops_without_hope && !went_aside; ++i) {
      compute_a_loop(o, values);
      went_aside = o.time_aside() > std::chrono::nanoseconds(0);
    }
    aside = o.time_aside();
    kept = std::ranges::all_of(values, [](float v) { return v == 0; });
  });
  begun.get_future().wait();
  bool ran_inside = false;
  short_one = other->submit("draft", {}, [&](ops& o) {
    ran_inside = !long_one.passed();
    std::ranges::fill(o.scratch(2 * loop_values), 1.0F);
    compute_a_loop(o, o.scratch(loop_values));
  });
  short_one.wait();
  long_one.wait();
  EXPECT_FALSE(short_one.failure() || long_one.failure());
  EXPECT_TRUE(ran_inside && went_aside);
  EXPECT_TRUE(kept) << "a program's intermediate values outlast the turns of others";
  EXPECT_EQ(turns, (std::vector<bool>{false, true}));
  EXPECT_EQ(stream->completed(), 1U);
  EXPECT_EQ(other->completed(), 1U);
}

TEST(partition, programs_of_one_tenant_never_run_inside_each_other) {
  auto device = device_of(2);
  for (const device::tenant_id tenant : {device::tenant_id{}, device::tenant_id{5}}) {
    auto low = device->make_stream("draft", 0, {stream_priority::low, tenant, {}});
    auto high = device->make_stream("target", 0, {stream_priority::normal, tenant, {}});
    std::promise<void> begun, submitted;
    std::vector<int> order;
    const fence draft = low->submit("draft", {}, [&](ops& o) {
      begun.set_value();
      submitted.get_future().wait();
      std::vector<float> values(loop_values);
      for (int i = 0; i < 100; ++i) compute_a_loop(o, values);
      order.push_back(1);
    });
    begun.get_future().wait();
    const fence verify = high->submit("verify", {}, [&](ops&) { order.push_back(2); });
    submitted.set_value();
    draft.wait();
    verify.wait();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  }
}

TEST(partition, tenants_that_always_have_work_all_get_on) {
  for (const std::uint32_t num_threads : {1U, 2U, 3U}) {
    auto device = device_of(num_threads);
    constexpr std::uint32_t num_tenants = 3, enough = 50;
    std::array<std::unique_ptr<device::stream>, num_tenants> streams;
    std::array<std::atomic<std::uint32_t>, num_tenants> num_run{};
    std::atomic<bool> all_got_on{false}, one_held_up_others{false};
    for (std::uint32_t t = 0; t < num_tenants; ++t)
      streams[t] =
          device->make_stream("tenant", 0, {static_cast<stream_priority>(t % 2), device::tenant_id{t}, {}});
    std::array<device::stream*, num_tenants> handles{};
    std::ranges::transform(streams, handles.begin(), [](const auto& stream) { return stream.get(); });
    // Each program submits the next one before it ends, so the device always has work of every tenant.
    std::function<void(std::uint32_t)> submit = [&](std::uint32_t t) {
      handles[t]->submit("step", {}, [&, t](ops& o) {
        const auto values = o.scratch(loop_values);
        for (std::uint32_t i = 0; i <= 4 * t; ++i) compute_a_loop(o, values);
        ++num_run[t];
        all_got_on = all_got_on || std::ranges::all_of(num_run, [](const auto& n) { return n >= enough; });
        one_held_up_others = one_held_up_others || num_run[t] == 100 * enough;
        if (!all_got_on && !one_held_up_others) submit(t);
      });
    };
    for (std::uint32_t t = 0; t < num_tenants; ++t) submit(t);
    for (auto& stream : streams) stream.reset();
    EXPECT_TRUE(all_got_on) << num_threads << " threads";
  }
}

} // namespace
} // namespace paceline::cpu
