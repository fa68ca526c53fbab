// Streams over a GPU that does its commands as late, and in as strange an order, as it may.
#include "gpu/cuda_stream.hpp"

#include "gpu/cuda_device.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/ops.hpp"
#include "tests/gpu/scripted_runtime.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t width = 8;

/// A GPU with rows of numbers on it: row r is r, r, ...
class rows_on_gpu {
 public:
  explicit rows_on_gpu(runtime_api& api) : gpu(*cuda_device::open(api, 0)) {
    std::vector<float> values;
    for (int r = 0; r < 8; ++r) values.insert(values.end(), width, static_cast<float>(r));
    rows_ = gpu->allocate(values.size() * sizeof(float));
    rows_->upload(0, std::as_bytes(std::span(values)));
    picked_ = gpu->allocate(4 * width * sizeof(float));
  }

  const float* rows() const { return reinterpret_cast<const float*>(rows_->data()); }
  /// Room for a row on the GPU.
  float* slot(std::size_t index) const { return reinterpret_cast<float*>(picked_->data()) + index * width; }

  /// Copies row `row` to `to`; its number travels through memory that the host and the GPU share.
  void pick(device::ops& ops, float* to, std::uint32_t row) const {
    ops.gather({to, width, rows(), width, &row, 1, width});
  }
  /// Brings `from` to the host.
  static void fetch(device::ops& ops, std::vector<float>& to, const float* from) {
    ops.gather({ops.place_for(to), width, from, width, nullptr, 1, width});
    ops.deliver();
  }

  std::unique_ptr<cuda_device> gpu;

 private:
  std::unique_ptr<device::buffer> rows_, picked_;
};

std::vector<float> row_of(float value) { return std::vector<float>(width, value); }

/// All orders of `a` commands of stream 1 and `b` of stream 2.
std::vector<std::vector<std::size_t>> interleavings(std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(a, 1);
  order.insert(order.end(), b, 2);
  std::vector<std::vector<std::size_t>> all;
  do all.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

// Commands of the programs below: a pick is a copy and a launch; a fetch a launch, a copy and its event; the
// end of a program one more event.
constexpr std::size_t pick_commands = 2, fetch_commands = 3, end_commands = 1;

TEST(cuda_stream, results_are_right_in_every_order_of_two_streams_commands) {
  constexpr std::size_t of_first = 2 * pick_commands + fetch_commands + 2 * end_commands;
  constexpr std::size_t of_second = fetch_commands + end_commands;
  const auto orders = interleavings(of_first, of_second);
  ASSERT_EQ(orders.size(), 715U);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    scripted_runtime runtime;
    rows_on_gpu data(runtime);
    auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
    runtime.follow(orders[i]);
    std::vector<float> a(width), b(width);
    first->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 3); });
    const auto a_done = first->submit("pick and fetch", {}, [&](device::ops& ops) {
      data.pick(ops, data.slot(1), 5); // while the number of the program before may not have been read
      data.fetch(ops, a, data.slot(0));
    });
    const auto b_done =
        second->submit("fetch", {}, [&](device::ops& ops) { data.fetch(ops, b, data.rows() + 6 * width); });
    a_done.wait(), b_done.wait();
    ASSERT_FALSE(a_done.failure() || b_done.failure()) << "order " << i;
    ASSERT_EQ(a, row_of(3)) << "order " << i;
    ASSERT_EQ(b, row_of(6)) << "order " << i;
    ASSERT_EQ(first->completed(), 2U);
  }
}

TEST(cuda_stream, a_fence_passes_when_the_device_is_done_and_not_before) {
  scripted_runtime runtime;
  rows_on_gpu data(runtime);
  auto held = data.gpu->make_stream("held", 0), other = data.gpu->make_stream("other", 0);
  // Everything of stream 2 goes before anything of stream 1.
  std::vector<std::size_t> order(2 * (pick_commands + end_commands), 2);
  order.insert(order.end(), pick_commands + end_commands, 1);
  runtime.follow(order);
  std::promise<void> issued;
  const auto held_done = held->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 1); });
  held->submit("next", {}, [&](device::ops&) { issued.set_value(); });
  issued.get_future().wait(); // the first program has been issued, and the next one begun
  EXPECT_FALSE(held_done.passed());
  EXPECT_EQ(held->completed(), 0U);
  other->submit("one", {}, [&](device::ops& ops) { data.pick(ops, data.slot(1), 1); });
  other->submit("two", {}, [&](device::ops& ops) { data.pick(ops, data.slot(2), 1); }).wait();
  held_done.wait();
  EXPECT_GE(runtime.num_done(), order.size());
  EXPECT_GE(held->completed(), 1U);
}

TEST(cuda_stream, a_program_begins_when_the_fences_it_names_have_passed) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
  auto gate = std::make_shared<device::fence::state>();
  const device::fence open(gate);
  bool was_open = false, was_passed = false;
  const auto a = first->submit("a", {open}, [&](device::ops&) { was_open = open.passed(); });
  const auto b = second->submit("b", {a}, [&](device::ops&) { was_passed = a.passed(); });
  // A turn for programs that do not wait.
  data.gpu->make_stream("other", 0)->submit("turn", {}, [](device::ops&) {}).wait();
  EXPECT_FALSE(a.passed());
  gate->pass();
  b.wait();
  EXPECT_TRUE(was_open);
  EXPECT_TRUE(was_passed);
}

TEST(cuda_stream, a_failed_fence_fails_what_waits_for_it_and_nothing_else) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto stream = data.gpu->make_stream("s", 0);
  const auto bad = stream->submit("bad", {}, [](device::ops&) { throw std::runtime_error("on purpose"); });
  bool ran = false;
  const auto after = stream->submit("after", {bad}, [&](device::ops&) { ran = true; });
  std::vector<float> out(width);
  const auto beside =
      stream->submit("beside", {}, [&](device::ops& ops) { data.fetch(ops, out, data.rows() + 4 * width); });
  beside.wait();
  EXPECT_EQ(bad.failure().value().code(), errc::internal);
  EXPECT_NE(after.failure().value().message().find("on purpose"), std::string::npos);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(beside.failure());
  EXPECT_EQ(out, row_of(4));
}

TEST(cuda_stream, a_lost_device_fails_every_program_with_that_code_and_holds_up_nothing) {
  // Whatever call meets it: the launch, the copy, the event or the wait for it.
  for (const char* call : {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize",
                           "cudaEventCreate"}) {
    emulation::emulated_runtime runtime;
    rows_on_gpu data(runtime);
    auto stream = data.gpu->make_stream("s", 0);
    runtime.fail(call, 0, failure_kind::device_lost);
    std::vector<float> out(width);
    const auto swallowed = stream->submit("swallows", {}, [&](device::ops& ops) {
      try {
        data.pick(ops, data.slot(0), 3);
        data.fetch(ops, out, data.slot(0));
      } catch (const std::exception&) { // as a round does, which reports in its own way
      }
    });
    const auto complains = stream->submit("complains", {}, [&](device::ops& ops) {
      try {
        data.fetch(ops, out, data.slot(0));
      } catch (const std::exception&) {
        throw std::runtime_error("in words of its own");
      }
    });
    swallowed.wait(), complains.wait();
    for (const auto& fence : {swallowed, complains}) {
      ASSERT_TRUE(fence.failure()) << call;
      EXPECT_EQ(fence.failure()->code(), errc::device_lost) << call << ": " << fence.failure()->message();
      EXPECT_NE(fence.failure()->message().find("cuda:0: cuda"), std::string::npos)
          << fence.failure()->message();
    }
    EXPECT_EQ(stream->completed(), 2U);
  }
}

TEST(cuda_stream, a_program_that_finds_no_memory_fails_alone) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto stream = data.gpu->make_stream("s", 0);
  runtime.fail("cudaMalloc", 0, failure_kind::out_of_memory);
  const auto large = stream->submit("large", {}, [](device::ops& ops) { ops.scratch(1000); });
  const auto again = stream->submit("again", {}, [](device::ops& ops) { ops.scratch(1000); });
  again.wait();
  EXPECT_EQ(large.failure().value().code(), errc::resource_exhausted);
  EXPECT_NE(large.failure()->message().find("cudaMalloc of 4000 bytes"), std::string::npos);
  EXPECT_NE(large.failure()->message().find("gpu/owners.cpp:"), std::string::npos);
  EXPECT_FALSE(again.failure());
}

TEST(cuda_stream, every_call_may_fail_and_nothing_leaks) {
  for (const char* call :
       {"cudaSetDevice", "cudaMalloc", "cudaMallocHost", "cudaStreamCreateWithPriority", "cudaEventCreate",
        "cudaEventRecord", "cudaEventSynchronize", "cudaMemcpyAsync", "cudaLaunchKernel"}) {
    for (std::uint32_t skipped = 0;; ++skipped) {
      emulation::emulated_runtime runtime;
      runtime.fail(call, skipped, failure_kind::out_of_memory);
      bool failed = false;
      {
        std::optional<rows_on_gpu> data;
        std::unique_ptr<device::stream> stream;
        std::vector<float> out(width);
        try {
          auto opened = cuda_device::open(runtime, 0);
          if (!opened) throw std::runtime_error(opened.error().message());
          opened->reset();
          data.emplace(runtime);
          stream = data->gpu->make_stream("s", 0);
          const auto done = stream->submit("work", {}, [&](device::ops& ops) {
            ops.scratch(100);
            data->pick(ops, data->slot(0), 3);
            data->fetch(ops, out, data->slot(0));
          });
          done.wait();
          failed = done.failure().has_value();
        } catch (const std::exception&) {
          failed = true;
        }
        if (!failed && stream) {
          EXPECT_EQ(out, row_of(3));
        }
        stream.reset();
      }
      ASSERT_EQ(runtime.num_owned(), 0U) << call << " number " << skipped;
      if (!failed && runtime.num_calls(call) <= skipped) break;
      ASSERT_LT(skipped, 100U) << call;
    }
  }
}

} // namespace
} // namespace paceline::gpu
