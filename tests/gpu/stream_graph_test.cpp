// Repeated programs, as graphs, on a GPU that executes its commands as late, and in as unusual an order, as
// it is allowed to.
#include "gpu/cuda_stream.hpp"

#include "tests/gpu/rows_on_gpu.hpp"
#include "tests/gpu/scripted_runtime.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <stdexcept>

namespace paceline::gpu {
namespace {

TEST(stream_graphs, give_what_programs_ask_for_in_every_order_of_two_streams_commands) {
  const auto orders = interleavings(pick_commands + fetch_commands, fetch_commands);
  ASSERT_EQ(orders.size(), 56U);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    scripted_runtime runtime;
    rows_on_gpu data(runtime);
    auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
    std::vector<float> a(width), b(width);
    for (std::uint32_t row = 1; row < 5; ++row) { // as commands, and three times as a graph
      if (row == 4) runtime.follow(orders[i]);
      std::fill(a.begin(), a.end(), -1.0F), std::fill(b.begin(), b.end(), -1.0F);
      const auto a_done = first->submit("pick and fetch", {}, [&](device::ops& ops) {
        data.pick(ops, data.slot(0), row);
        data.fetch(ops, a, data.slot(0));
      });
      const auto b_done =
          second->submit("fetch", {}, [&](device::ops& ops) { data.fetch(ops, b, data.rows() + 7 * width); });
      a_done.wait(), b_done.wait();
      ASSERT_FALSE(a_done.failure() || b_done.failure()) << "order " << i;
      ASSERT_EQ(a, row_of(static_cast<float>(row))) << "order " << i;
      ASSERT_EQ(b, row_of(7)) << "order " << i;
    }
    ASSERT_EQ(runtime.num_calls("cudaGraphInstantiate"), 2U);
    ASSERT_EQ(runtime.num_calls("cudaGraphLaunch"), 6U);
  }
}

TEST(stream_graphs, of_launches_that_start_early_are_right_in_every_order_of_two_streams_commands) {
  const auto orders = interleavings(pick_commands + 2 + fetch_commands, pick_commands + 1 + end_commands);
  ASSERT_EQ(orders.size(), 330U);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    scripted_runtime runtime;
    rows_on_gpu data(runtime);
    auto first = data.gpu->make_stream("first", 0), second = data.gpu->make_stream("second", 0);
    std::vector<float> got(width);
    const auto move = [&](device::ops& ops, std::size_t to, std::size_t from) {
      ops.gather({data.slot(to), width, data.slot(from), width, nullptr, 1, width});
    };
    for (std::uint32_t row = 1; row < 4; ++row) { // as commands, and twice as a graph
      if (row == 3) runtime.follow(orders[i]);
      const auto done = first->submit("relay", {}, [&](device::ops& ops) {
        data.pick(ops, data.slot(0), row);
        move(ops, 1, 0);
        move(ops, 0, 1);
        data.fetch(ops, got, data.slot(0));
      });
      const auto other = second->submit("move", {}, [&](device::ops& ops) {
        data.pick(ops, data.slot(2), 7 - row);
        move(ops, 3, 2);
      });
      done.wait(), other.wait();
      ASSERT_FALSE(done.failure() || other.failure()) << "order " << i;
      ASSERT_EQ(got, row_of(static_cast<float>(row))) << "order " << i;
      first->submit("fetch", {}, [&](device::ops& ops) { data.fetch(ops, got, data.slot(3)); }).wait();
      ASSERT_EQ(got, row_of(static_cast<float>(7 - row))) << "order " << i;
    }
    ASSERT_EQ(runtime.num_early(), 3U * (3 + 1)) << "three of the relay's, one of the other's";
  }
}

// The producer picks a row, and another one without a reader; the consumer fetches the picked row. Its first
// command is the wait for the producer's end. All three programs are graphs.
constexpr std::size_t picked_by = pick_commands + end_commands, of_producer = 2 * picked_by;
constexpr std::size_t of_consumer = 1 + fetch_commands;

/// Whether a device is allowed this order: not if stream 2 begins before what it waits for is done.
bool is_legal(std::span<const std::size_t> order) {
  return std::ranges::count(
             order.first(static_cast<std::size_t>(std::ranges::find(order, 2U) - order.begin())), 1U) >=
         static_cast<std::ptrdiff_t>(picked_by);
}

/// The consumer's result in an order.
std::vector<float> fetched_from_producer(std::span<const std::size_t> order, bool with_waits) {
  scripted_runtime runtime;
  rows_on_gpu data(runtime);
  auto producer = data.gpu->make_stream("producer", 0), consumer = data.gpu->make_stream("consumer", 0);
  auto other = data.gpu->make_stream("other", 0);
  std::vector<float> got(width);
  // Nothing is done before the consumer has begun and both picks have memory for what they send, so the three
  // programs have the same memory in every round.
  const auto round = [&](std::uint32_t row, std::span<const std::size_t> in_order) {
    std::vector<std::size_t> script{3};
    script.insert(script.end(), in_order.begin(), in_order.end());
    runtime.follow(std::move(script));
    std::promise<void> begun, sent;
    const auto picked =
        producer->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), row); });
    const auto more = producer->submit("pick", {}, [&](device::ops& ops) {
      data.pick(ops, data.slot(1), 5);
      sent.set_value();
    });
    const auto done = consumer->submit("fetch", {picked}, [&](device::ops& ops) {
      begun.set_value();
      data.fetch(ops, got, data.slot(0));
    });
    begun.get_future().wait(), sent.get_future().wait();
    other->submit("now", {}, [](device::ops&) {});
    done.wait(), more.wait();
    EXPECT_FALSE(done.failure() || more.failure());
  };
  std::vector<std::size_t> usual(of_producer, 1);
  usual.insert(usual.end(), of_consumer, 2);
  for (std::uint32_t row = 1; row < 3; ++row) { // the shapes come twice
    round(row, usual);
    EXPECT_EQ(got, row_of(static_cast<float>(row)));
  }
  if (!with_waits) runtime.forget_waits();
  round(3, order);
  EXPECT_EQ(runtime.num_calls("cudaStreamWaitEvent"), 3U);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 6U) << "the second and the third of each";
  return got;
}

TEST(stream_graphs, wait_on_the_device_for_graphs_of_other_streams_in_every_order_it_may_take) {
  std::size_t num_legal = 0, num_wrong_without = 0;
  for (const auto& order : interleavings(of_producer, of_consumer)) {
    if (is_legal(order)) {
      ++num_legal;
      ASSERT_EQ(fetched_from_producer(order, true), row_of(3)) << "order " << num_legal;
    } else if (num_wrong_without == 0) {
      num_wrong_without += fetched_from_producer(order, false) != row_of(3) ? 1 : 0;
    }
  }
  EXPECT_EQ(num_legal, 35U);
  EXPECT_EQ(num_wrong_without, 1U) << "it is the wait that makes the results right";
}

TEST(stream_graphs, a_program_that_ends_early_has_asked_for_nothing_of_its_last_step) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto stream = data.gpu->make_stream("s", 0);
  std::vector<float> got(width);
  for (std::uint32_t row = 1; row < 4; ++row) {
    stream->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(0), row); }).wait();
    const auto cancelled = stream->submit("cancelled", {}, [&](device::ops& ops) {
      data.pick(ops, data.slot(0), 7);
      throw std::runtime_error("cancelled");
    });
    bool ran = false;
    const auto after = stream->submit("after", {cancelled}, [&](device::ops& ops) {
      ran = true;
      data.pick(ops, data.slot(0), 6);
    });
    const auto done =
        stream->submit("fetch", {}, [&](device::ops& ops) { data.fetch(ops, got, data.slot(0)); });
    done.wait();
    EXPECT_TRUE(cancelled.failure() && after.failure());
    EXPECT_FALSE(ran || done.failure());
    EXPECT_EQ(got, row_of(static_cast<float>(row)));
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
}

TEST(stream_graphs, a_launch_that_fails_fails_its_program_alone) {
  emulation::emulated_runtime runtime;
  rows_on_gpu data(runtime);
  auto stream = data.gpu->make_stream("s", 0);
  std::vector<float> got(width);
  const auto fetch = [&] {
    const auto done = stream->submit(
        "fetch", {}, [&data, &got](device::ops& ops) { data.fetch(ops, got, data.rows() + 3 * width); });
    done.wait();
    return done.failure();
  };
  EXPECT_FALSE(fetch());
  runtime.fail("cudaGraphLaunch", 0, failure_kind::other);
  const auto failure = fetch();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), errc::internal);
  EXPECT_EQ(failure->message().find("s/fetch: cuda:0: cudaGraphLaunch of 2 nodes: "), 0U)
      << failure->message();
  EXPECT_NE(failure->message().find(", at gpu/step_graph.cpp:"), std::string::npos) << failure->message();
  EXPECT_FALSE(fetch());
  EXPECT_EQ(got, row_of(3));
}

TEST(stream_graphs, every_call_may_fail_and_nothing_leaks) {
  for (const char* call : {"cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphAddMemcpyNode1D",
                           "cudaGraphInstantiate", "cudaGraphExecMemcpyNodeSetParams1D", "cudaGraphLaunch",
                           "cudaGraphExecDestroy", "cudaGraphDestroy"}) {
    for (const auto how : {failure_kind::other, failure_kind::out_of_memory, failure_kind::device_lost}) {
      for (std::uint32_t skipped = 0;; ++skipped) {
        emulation::emulated_runtime runtime;
        runtime.fail(call, skipped, how);
        {
          rows_on_gpu data(runtime);
          auto first = data.gpu->make_stream("f", 0), second = data.gpu->make_stream("s", 0);
          std::vector<float> got(width);
          for (std::uint32_t row = 1; row < 5; ++row) {
            const auto picked =
                first->submit("pick", {}, [&](device::ops& ops) { data.pick(ops, data.slot(row % 2), row); });
            const auto done = second->submit(
                "fetch", {picked}, [&](device::ops& ops) { data.fetch(ops, got, data.slot(row % 2)); });
            done.wait();
            if (const auto failure = done.failure()) {
              const bool tells = how == failure_kind::device_lost || std::string(call) == "cudaGraphLaunch";
              ASSERT_TRUE(tells) << call << " number " << skipped << ": " << failure->message();
              ASSERT_EQ(failure->code() == errc::device_lost, how == failure_kind::device_lost);
            } else {
              ASSERT_EQ(got, row_of(static_cast<float>(row))) << call << " number " << skipped;
            }
          }
        }
        ASSERT_EQ(runtime.num_owned(), 0U) << call << " number " << skipped;
        if (runtime.num_calls(call) <= skipped) break;
        ASSERT_LT(skipped, 100U) << call;
      }
    }
  }
}

} // namespace
} // namespace paceline::gpu
