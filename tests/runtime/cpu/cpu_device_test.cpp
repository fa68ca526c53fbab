#include "runtime/cpu/cpu_device.hpp"

#include "runtime/base/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <stdexcept>

namespace paceline::cpu {
namespace {

using device::fence;
using device::ops;
using device::stream_priority;

std::unique_ptr<cpu_device> device_with(std::uint32_t num_partitions, std::uint32_t num_threads = 1) {
  cpu_device_options opts;
  opts.partitions.resize(num_partitions);
  for (auto& part : opts.partitions) part.num_threads = num_threads;
  auto made = cpu_device::make(opts);
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

/// A fence that the test passes.
struct gate {
  std::shared_ptr<fence::state> state = std::make_shared<fence::state>();
  fence opened{state};
  void open(std::optional<error> failure = std::nullopt) { state->pass(std::move(failure)); }
};

TEST(cpu_stream, runs_programs_in_the_order_of_submission) {
  auto device = device_with(1, 2);
  auto stream = device->make_stream("target", 0);
  std::vector<int> order;
  fence last;
  for (int i = 0; i < 100; ++i) last = stream->submit("step", {}, [&order, i](ops&) { order.push_back(i); });
  last.wait();
  EXPECT_FALSE(last.failure());
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(stream->submitted(), 100U);
  EXPECT_EQ(stream->completed(), 100U);
  EXPECT_EQ(stream->name(), "target");
}

TEST(cpu_stream, waits_for_its_fences_without_holding_up_another_stream) {
  auto device = device_with(1);
  auto blocked = device->make_stream("draft", 0);
  auto free = device->make_stream("target", 0);
  gate ready;
  std::atomic<bool> ran{false};
  const fence waiting = blocked->submit("needs the gate", {ready.opened}, [&](ops&) { ran = true; });
  free->submit("independent", {}, [](ops&) {}).wait(); // same partition, submitted later, but it completes
  EXPECT_FALSE(ran);
  EXPECT_FALSE(waiting.passed());
  EXPECT_EQ(blocked->completed(), 0U);
  ready.open();
  waiting.wait();
  EXPECT_TRUE(ran);
}

TEST(cpu_stream, later_work_of_a_stream_waits_behind_its_oldest) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  auto other = device->make_stream("other", 0);
  gate ready;
  std::vector<int> order;
  stream->submit("first", {ready.opened}, [&](ops&) { order.push_back(1); });
  const fence second = stream->submit("second", {}, [&](ops&) { order.push_back(2); });
  other->submit("independent", {}, [](ops&) {}).wait();
  EXPECT_FALSE(second.passed());
  ready.open();
  second.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(cpu_stream, prefers_ready_streams_of_higher_priority) {
  auto device = device_with(1);
  auto low = device->make_stream("draft", 0, {.priority = stream_priority::low});
  auto high = device->make_stream("target", 0, {.priority = stream_priority::normal});
  std::promise<void> hold;
  auto held = hold.get_future();
  low->submit("keeps the partition busy", {}, [&](ops&) { held.wait(); });
  std::vector<int> order;
  const fence draft = low->submit("draft", {}, [&](ops&) { order.push_back(2); });
  const fence verify = high->submit("verify", {}, [&](ops&) { order.push_back(1); });
  hold.set_value();
  draft.wait();
  verify.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(cpu_stream, a_ready_program_is_overtaken_once) {
  auto device = device_with(1);
  auto low = device->make_stream("draft", 0, {.priority = stream_priority::low});
  auto high = device->make_stream("target", 0, {.priority = stream_priority::normal});
  std::promise<void> begun, hold;
  auto held = hold.get_future();
  low->submit("keeps the partition busy", {}, [&](ops&) { begun.set_value(), held.wait(); });
  begun.get_future().wait();
  std::vector<int> order;
  const auto append = [&](int number) { return [&, number](ops&) { order.push_back(number); }; };
  const std::vector done{low->submit("draft", {}, append(2)), high->submit("verify", {}, append(1)),
                         high->submit("verify", {}, append(3)), low->submit("draft", {}, append(5)),
                         high->submit("verify", {}, append(4))};
  hold.set_value();
  for (const auto& fence : done) fence.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(cpu_stream, partitions_compute_at_the_same_time) {
  auto device = device_with(2);
  auto a = device->make_stream("a", 0);
  auto b = device->make_stream("b", 1);
  std::promise<void> from_a, from_b;
  // Each program waits for the other: on one partition this would deadlock.
  const fence done_a = a->submit("a", {}, [&](ops&) {
    from_a.set_value();
    from_b.get_future().wait();
  });
  const fence done_b = b->submit("b", {}, [&](ops&) {
    from_b.set_value();
    from_a.get_future().wait();
  });
  done_a.wait();
  done_b.wait();
  EXPECT_FALSE(done_a.failure() || done_b.failure());
}

TEST(cpu_stream, fences_order_work_across_partitions) {
  auto device = device_with(2);
  auto a = device->make_stream("a", 0);
  auto b = device->make_stream("b", 1);
  std::vector<int> values; // unsynchronised: the fences must order every access
  fence last;
  for (int i = 0; i < 500; ++i) {
    auto& stream = i % 2 == 0 ? *a : *b;
    last = stream.submit("step", {last}, [&values, i](ops&) { values.push_back(i); });
  }
  last.wait();
  ASSERT_EQ(values.size(), 500U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(values[i], i);
}

TEST(cpu_stream, a_throwing_program_fails_its_fence_and_what_names_it) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  auto other = device->make_stream("draft", 0);
  bool dependent_ran = false, unrelated_ran = false;
  const fence broken = stream->submit("verify", {}, [](ops&) { throw std::runtime_error("lost a row"); });
  const fence dependent = other->submit("draft", {broken}, [&](ops&) { dependent_ran = true; });
  const fence unrelated = stream->submit("next", {}, [&](ops&) { unrelated_ran = true; });
  const fence second_order = stream->submit("after draft", {dependent}, [](ops&) {});
  second_order.wait();
  ASSERT_TRUE(broken.failure());
  EXPECT_EQ(broken.failure()->code(), errc::internal);
  EXPECT_NE(broken.failure()->message().find("target/verify: lost a row"), std::string::npos);
  ASSERT_TRUE(dependent.failure());
  EXPECT_EQ(dependent.failure()->code(), errc::internal);
  EXPECT_NE(dependent.failure()->message().find("lost a row"), std::string::npos);
  EXPECT_FALSE(dependent_ran);
  EXPECT_FALSE(unrelated.failure());
  EXPECT_TRUE(unrelated_ran);
  EXPECT_TRUE(second_order.failure());
  EXPECT_EQ(stream->completed(), 3U);
}

TEST(cpu_stream, a_failed_dependency_keeps_its_code) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  gate ready;
  const fence work = stream->submit("verify", {fence(), ready.opened}, [](ops&) { FAIL(); });
  ready.open(error(errc::device_lost, "gone"));
  work.wait();
  ASSERT_TRUE(work.failure());
  EXPECT_EQ(work.failure()->code(), errc::device_lost);
}

TEST(cpu_stream, an_op_that_is_misused_fails_the_program_only) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  const fence broken =
      stream->submit("verify", {}, [](ops&) { PACELINE_CHECK(false, "a broken invariant"); });
  const fence strange = stream->submit("strange", {}, [](ops&) { throw 7; });
  const fence fine = stream->submit("next", {}, [](ops&) {});
  fine.wait();
  EXPECT_TRUE(broken.failure());
  EXPECT_TRUE(strange.failure());
  EXPECT_FALSE(fine.failure());
}

TEST(cpu_stream, counts_work_before_its_actions_run) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  std::promise<std::uint64_t> seen;
  gate ready;
  stream->submit("first", {}, [](ops&) {});
  stream->submit("second", {ready.opened}, [](ops&) {}).when_passed([&] {
    seen.set_value(stream->completed());
  });
  ready.open();
  EXPECT_EQ(seen.get_future().get(), 2U);
}

/// A partition whose members spin for `spin`, or park at once.
std::unique_ptr<cpu_device> device_with_spin(std::uint32_t num_threads, std::chrono::microseconds spin) {
  cpu_device_options opts;
  opts.partitions.resize(1);
  opts.partitions[0].num_threads = num_threads;
  opts.partitions[0].spin = spin;
  return std::move(*cpu_device::make(opts));
}

TEST(cpu_stream, fences_pass_in_order_whoever_tells_of_them) {
  for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(1000000)})
    for (const std::uint32_t num_threads : {1U, 2U, 3U}) {
      auto device = device_with_spin(num_threads, spin);
      auto stream = device->make_stream("target", 0);
      std::vector<int> told; // a plain vector: actions of one stream must not run at the same time
      gate all_registered;
      for (int i = 0; i < 2000; ++i)
        stream->submit("step", {all_registered.opened}, [](ops&) {}).when_passed([&told, i] {
          told.push_back(i);
        });
      all_registered.open();
      stream.reset(); // waits for the work and its actions
      ASSERT_EQ(told.size(), 2000U) << num_threads << " threads";
      EXPECT_TRUE(std::is_sorted(told.begin(), told.end())) << num_threads << " threads";
    }
}

TEST(cpu_stream, an_end_is_told_while_the_next_program_runs) {
  for (const auto spin : {std::chrono::microseconds(0), std::chrono::microseconds(1000000)})
    for (const std::uint32_t num_threads : {1U, 2U, 3U}) {
      auto device = device_with_spin(num_threads, spin);
      auto stream = device->make_stream("target", 0);
      for (int round = 0; round < 50; ++round) {
        std::promise<void> told;
        gate both_wait; // each waits until both run
        auto first = stream->submit("first", {both_wait.opened}, [](ops&) {});
        first.when_passed([&] { told.set_value(); });
        auto second = stream->submit("second", {}, [&](ops&) { told.get_future().wait(); });
        both_wait.open();
        second.wait();
        ASSERT_FALSE(second.failure());
      }
    }
}

TEST(cpu_stream, an_action_may_submit_more_work) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  std::promise<void> end;
  std::function<void(int)> next = [&](int left) {
    stream->submit("step", {}, [](ops&) {}).when_passed([&, left] {
      if (left == 0)
        end.set_value();
      else
        next(left - 1);
    });
  };
  next(200);
  end.get_future().wait();
  EXPECT_EQ(stream->submitted(), 201U);
}

TEST(cpu_stream, destruction_waits_for_the_work) {
  auto device = device_with(1);
  auto stream = device->make_stream("target", 0);
  int done = 0;
  for (int i = 0; i < 50; ++i) stream->submit("step", {}, [&](ops&) { ++done; });
  stream.reset();
  EXPECT_EQ(done, 50);
}

TEST(cpu_stream, takes_submissions_from_many_threads) {
  auto device = device_with(1, 2);
  auto stream = device->make_stream("target", 0);
  int count = 0; // programs of one stream exclude each other
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) stream->submit("step", {}, [&](ops&) { ++count; });
    });
  for (auto& thread : threads) thread.join();
  stream.reset();
  EXPECT_EQ(count, 900);
}

TEST(cpu_device, refuses_a_level_that_the_machine_lacks_or_nobody_knows) {
  EXPECT_FALSE(parse_kernel_level("avx9000"));
  EXPECT_EQ(parse_kernel_level("avx512vnni"), kernel_level::avx512_vnni);
  EXPECT_EQ(parse_kernel_level("avx_vnni"), kernel_level::avx_vnni);
  for (const auto level :
       {kernel_level::scalar, kernel_level::avx2, kernel_level::avx_vnni, kernel_level::avx512_vnni}) {
    cpu_device_options opts;
    opts.partitions.resize(1);
    opts.level = level;
    const auto made = cpu_device::make(opts);
    ASSERT_EQ(made.has_value(), machine_runs(level)) << to_string(level);
    if (made)
      EXPECT_EQ((*made)->level(), level);
    else
      EXPECT_EQ(made.error().code(), errc::invalid_argument);
  }
  EXPECT_TRUE(machine_runs(best_kernel_level()));
  cpu_device_options none;
  EXPECT_FALSE(cpu_device::make(none));
}

TEST(cpu_device, takes_its_level_from_the_environment_unless_one_is_asked_for) {
  cpu_device_options opts;
  opts.partitions.resize(1);
  const auto level_with = [&](const char* value) {
    setenv("PACELINE_CPU_LEVEL", value, 1);
    auto made = cpu_device::make(opts);
    unsetenv("PACELINE_CPU_LEVEL");
    return made;
  };
  EXPECT_EQ((*level_with("scalar"))->level(), kernel_level::scalar);
  EXPECT_EQ((*level_with(""))->level(), best_kernel_level());
  const auto unknown = level_with("sse");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("PACELINE_CPU_LEVEL"), std::string::npos);
  opts.level = best_kernel_level();
  EXPECT_EQ((*level_with("scalar"))->level(), best_kernel_level());
}

TEST(cpu_device, streams_run_ops_at_the_devices_level) {
  auto device = device_with(1);
  std::string level;
  device->make_stream("target", 0)->submit("ask", {}, [&](ops& o) { level = o.level(); }).wait();
  EXPECT_EQ(level, "cpu/" + std::string(to_string(device->level())));
}

} // namespace
} // namespace paceline::cpu
