// Streams on a GPU that executes its commands as late, and in as unusual an order, as it is allowed to.
#include "gpu/cuda_stream.hpp"

#include "tests/gpu/rows_on_gpu.hpp"
#include "tests/gpu/scripted_runtime.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>

namespace paceline::gpu {
namespace {

TEST(cuda_stream, results_are_right_in_every_order_of_two_streams_commands) {
  constexpr std::size_t of_first = 2 * pick_commands + end_commands + fetch_commands;
  const auto orders = interleavings(of_first, fetch_commands);
  ASSERT_EQ(orders.size(), 165U);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    scripted_runtime runtime;
    rows_on_gpu data(runtime);
    auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
    runtime.follow(orders[i]);
    std::vector<float> a(width), b(width);
    first->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 3); });
    const auto a_done = first->submit("pick and fetch", {}, [&](device::ops& ops) {
      data.pick(ops, data.slot(1), 5); // before the previous program's number may have been read
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
  // All of stream 2 runs before stream 1.
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
  rows_on_gpu data(runtime), others(runtime);
  auto first = data.gpu->make_stream("first", 0), second = others.gpu->make_stream("on another device", 0);
  auto gate = std::make_shared<device::fence::state>();
  const device::fence open(gate);
  bool was_open = false, was_passed = false;
  const auto a = first->submit("a", {open}, [&](device::ops&) { was_open = open.passed(); });
  const auto b = second->submit("b", {a}, [&](device::ops&) { was_passed = a.passed(); });
  // A yield, for programs that do not wait.
  data.gpu->make_stream("other", 0)->submit("turn", {}, [](device::ops&) {}).wait();
  EXPECT_FALSE(a.passed());
  gate->pass();
  b.wait();
  EXPECT_TRUE(was_open);
  EXPECT_TRUE(was_passed);
}

TEST(cuda_stream, fences_pass_in_the_order_of_programs_whoever_finds_them_done) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto stream = data.gpu->make_stream("s", 0);
  auto gate = std::make_shared<device::fence::state>();
  std::promise<void> told, go_on;
  const auto first = stream->submit("pick", {device::fence(gate)},
                                    [&](device::ops& ops) { data.pick(ops, data.slot(0), 3); });
  first.when_passed([&] { told.set_value(), go_on.get_future().wait(); });
  std::vector<float> got(width);
  const auto second =
      stream->submit("fetch", {}, [&](device::ops& ops) { data.fetch(ops, got, data.slot(0)); });
  std::promise<void> begun;
  const auto third = stream->submit("next", {}, [&](device::ops&) { begun.set_value(); });
  gate->pass();
  told.get_future().wait();
  begun.get_future().wait(); // the second has completed, and the first is still being reported
  EXPECT_FALSE(second.passed());
  EXPECT_EQ(stream->completed(), 1U);
  go_on.set_value();
  third.wait();
  EXPECT_TRUE(second.passed());
  EXPECT_EQ(got, row_of(3));
}

// The producer picks a row and continues with other work; the consumer, after a program of its own, fetches
// the picked row. Its first command is the wait for the producer's end.
constexpr std::size_t picked_by = pick_commands + end_commands, of_producer = 2 * picked_by;
constexpr std::size_t waits_at = end_commands, of_consumer = waits_at + 1 + fetch_commands;

/// Whether a device is allowed this order: not if stream 2 continues before what it waits for is done.
bool is_legal(std::span<const std::size_t> order) {
  std::size_t first = 0, second = 0;
  for (const std::size_t stream : order) {
    if (stream == 2 && second == waits_at && first < picked_by) return false;
    ++(stream == 1 ? first : second);
  }
  return true;
}

/// The consumer's result in an order.
std::vector<float> fetched_from_producer(std::span<const std::size_t> order, bool with_waits) {
  scripted_runtime runtime;
  rows_on_gpu data(runtime);
  auto producer = data.gpu->make_stream("producer", 0), consumer = data.gpu->make_stream("consumer", 0);
  auto other = data.gpu->make_stream("other", 0);
  std::vector<std::size_t> script{3}; // nothing is done before the consumer has begun
  script.insert(script.end(), order.begin(), order.end());
  runtime.follow(std::move(script));
  if (!with_waits) runtime.forget_waits();
  std::vector<float> got(width);
  std::promise<void> begun;
  const auto picked =
      producer->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 3); });
  const auto more = producer->submit("more", {}, [&](device::ops& ops) { data.pick(ops, data.slot(1), 5); });
  consumer->submit("own", {}, [](device::ops&) {});
  const auto done = consumer->submit("fetch", {picked}, [&](device::ops& ops) {
    begun.set_value();
    data.fetch(ops, got, data.slot(0));
  });
  begun.get_future().wait();
  other->submit("now", {}, [](device::ops&) {});
  done.wait();
  EXPECT_TRUE(picked.passed()) << "a fence passes after those it waited for";
  more.wait();
  EXPECT_FALSE(done.failure() || more.failure());
  EXPECT_EQ(runtime.num_calls("cudaStreamWaitEvent"), 1U);
  return got;
}

TEST(cuda_stream, the_device_waits_for_fences_of_its_own_in_every_order_it_may_take) {
  std::size_t num_legal = 0, num_wrong_without = 0;
  for (const auto& order : interleavings(of_producer, of_consumer)) {
    if (is_legal(order)) {
      ++num_legal;
      ASSERT_EQ(fetched_from_producer(order, true), row_of(3)) << "order " << num_legal;
    } else if (num_wrong_without == 0) {
      num_wrong_without += fetched_from_producer(order, false) != row_of(3) ? 1 : 0;
    }
  }
  EXPECT_EQ(num_legal, 161U);
  EXPECT_EQ(num_wrong_without, 1U) << "it is the wait that makes the results right";
}

/// A GPU that reports the end of nothing until it is allowed to.
class silent_runtime final : public emulation::emulated_runtime {
 public:
  void be_heard() { released_.set_value(); }
  void be_silent() { is_silent_ = true; }

 protected:
  void await(raw_event) override {
    if (is_silent_) heard_.wait();
  }

 private:
  std::atomic<bool> is_silent_{false};
  std::promise<void> released_;
  std::shared_future<void> heard_{released_.get_future()};
};

TEST(cuda_stream, a_program_begins_while_the_device_is_at_what_it_waits_for) {
  silent_runtime runtime;
  rows_on_gpu data(runtime);
  auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
  runtime.be_silent();
  std::vector<float> got(width);
  std::promise<bool> begun;
  const auto a = first->submit("a", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 4); });
  const auto b = second->submit("b", {a}, [&](device::ops& ops) {
    begun.set_value(a.passed());
    data.fetch(ops, got, data.slot(0));
  });
  EXPECT_FALSE(begun.get_future().get());
  EXPECT_FALSE(b.passed());
  runtime.be_heard();
  b.wait();
  EXPECT_TRUE(a.passed());
  EXPECT_EQ(got, row_of(4));
}

TEST(cuda_stream, a_program_fails_with_what_it_waited_for_even_if_it_has_begun) {
  silent_runtime runtime;
  rows_on_gpu data(runtime);
  auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
  runtime.be_silent();
  std::promise<void> begun;
  const auto a = first->submit("a", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), 4); });
  const auto b = second->submit("b", {a}, [&](device::ops&) {
    begun.set_value();
    a.wait();
  });
  begun.get_future().wait();
  runtime.fail("cudaEventSynchronize", 0, failure_kind::other); // that of a: b has not been issued
  runtime.be_heard();
  b.wait();
  ASSERT_TRUE(a.failure());
  ASSERT_TRUE(b.failure());
  EXPECT_EQ(b.failure()->code(), a.failure()->code());
  EXPECT_NE(b.failure()->message().find("what it waited for failed: second/b"), std::string::npos)
      << b.failure()->message();
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
  // Whatever call reports it: the launch, the copy, the event or the wait for it.
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
        data.pick(ops, data.slot(1), 4); // the device reports its end
      } catch (const std::exception&) {  // as in a round, which has its own reports
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
  for (const char* call : {"cudaSetDevice", "cudaMalloc", "cudaMallocHost", "cudaStreamCreateWithPriority",
                           "cudaEventCreate", "cudaEventRecord", "cudaEventSynchronize",
                           "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaLaunchKernel"}) {
    for (std::uint32_t skipped = 0;; ++skipped) {
      emulation::emulated_runtime runtime;
      runtime.fail(call, skipped, failure_kind::out_of_memory);
      bool failed = false;
      {
        std::optional<rows_on_gpu> data;
        std::unique_ptr<device::stream> stream, other;
        std::vector<float> out(width);
        try {
          auto opened = cuda_device::open(runtime, 0);
          if (!opened) throw std::runtime_error(opened.error().message());
          opened->reset();
          data.emplace(runtime);
          stream = data->gpu->make_stream("s", 0);
          other = data->gpu->make_stream("o", 0);
          const auto picked =
              other->submit("pick", {}, [&](device::ops& ops) { data->pick(ops, data->slot(0), 3); });
          const auto done = stream->submit("work", {picked}, [&](device::ops& ops) {
            ops.scratch(100);
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
        stream.reset(), other.reset();
      }
      ASSERT_EQ(runtime.num_owned(), 0U) << call << " number " << skipped;
      if (!failed && runtime.num_calls(call) <= skipped) break;
      ASSERT_LT(skipped, 100U) << call;
    }
  }
}

} // namespace
} // namespace paceline::gpu
