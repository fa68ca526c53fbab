#include "gpu/step_queue.hpp"

#include "tests/gpu/scripted_runtime.hpp"
#include "tests/gpu/sums_on_gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace paceline::gpu {
namespace {

TEST(step_queue, knows_whether_the_host_has_waited_for_all_of_a_program) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  EXPECT_FALSE(data.steps.is_done()) << "what the queue has been told otherwise may be under way";
  for (int i = 0; i < 3; ++i) { // as commands, as a graph, and again
    data.steps.begin_program();
    EXPECT_FALSE(data.steps.is_done()) << "nothing has been waited for";
    data.note(1);
    data.steps.finish();
    EXPECT_TRUE(data.steps.is_done());
    data.add(2);
    EXPECT_FALSE(data.steps.is_done()) << "it went on";
    data.note(1);
    data.steps.finish();
    EXPECT_TRUE(data.steps.is_done());
  }
  data.steps.go_on_directly();
  data.note(1);
  EXPECT_FALSE(data.steps.is_done());
}

TEST(step_queue, a_step_that_comes_again_is_launched_as_one_graph) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 1; i <= 5; ++i) {
    data.add(static_cast<float>(i));
    EXPECT_EQ(data.sum(), static_cast<float>(i * (i + 1) / 2)) << "with the memory as it is then";
  }
  EXPECT_EQ(runtime.num_calls("cudaLaunchKernel"), 1U) << "the first, as it came";
  EXPECT_EQ(runtime.num_calls("cudaGraphInstantiate"), 1U);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
  EXPECT_EQ(runtime.num_calls("cudaGraphExecMemcpyNodeSetParams1D"), 0U) << "nothing has changed";
}

TEST(step_queue, a_graph_copies_what_its_commands_say_now) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  data.add(1, {.sent_at = 0});
  data.add(2, {.sent_at = 1}); // creates the graph, with another address than the first
  EXPECT_EQ(data.sum(), 3);
  data.add(4, {.sent_at = 0}); // and back
  EXPECT_EQ(data.sum(), 7);
  data.add(8, {.sent_at = 0, .bytes_back = bytes / 2}); // half of it fetched
  EXPECT_EQ(data.sum(0, 0), 15);
  EXPECT_EQ(data.sum(0, count - 1), 7);
  data.add(16, {.sent_at = 3});
  EXPECT_EQ(data.sum(0, 0), 31);
  EXPECT_EQ(data.sum(0, count - 1), 31) << "a whole one again";
  EXPECT_EQ(runtime.num_calls("cudaGraphInstantiate"), 1U);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
  EXPECT_EQ(runtime.num_calls("cudaGraphExecMemcpyNodeSetParams1D"), 4U)
      << "back, half, whole, and from there";
}

TEST(step_queue, parameters_of_kernels_are_part_of_the_shape) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 1; i <= 3; ++i) {
    data.add(1, {.sum = 0});
    data.add(2, {.sum = 1, .width = count / 2});
    EXPECT_EQ(data.sum(0, count - 1), static_cast<float>(i));
    EXPECT_EQ(data.sum(1, 0), static_cast<float>(2 * i));
    EXPECT_EQ(data.sum(1, count - 1), 0);
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphInstantiate"), 2U) << "one for each, neither is changed";
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
  EXPECT_EQ(runtime.num_calls("cudaGraphExecMemcpyNodeSetParams1D"), 0U);
}

TEST(step_queue, a_launch_under_way_does_what_it_was_to_do) {
  scripted_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 0; i < 2; ++i) {
    data.add(1);
    data.steps.finish();
  }
  runtime.follow(std::vector<std::size_t>(3 * 3 + 1, 0)); // three steps and the event of a wait
  data.add(2, {.sent_at = 0});
  data.add(3, {.sent_at = 1}); // changes the graph while its launch has not begun
  data.add(4, {.sent_at = 2});
  EXPECT_EQ(runtime.num_done(), 0U);
  EXPECT_EQ(data.sum(), 2) << "nothing has been done";
  data.steps.finish();
  EXPECT_EQ(data.sum(), 2 + 2 + 3 + 4);
}

TEST(step_queue, memory_used_again_before_its_graph_has_read_it_shows) {
  // The emulation detects the errors that memory pools prevent.
  scripted_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 0; i < 2; ++i) {
    data.add(1);
    data.steps.finish();
  }
  runtime.follow(std::vector<std::size_t>(2 * 3 + 1, 0));
  data.add(2);
  data.add(4); // instead of the 2
  data.steps.finish();
  EXPECT_EQ(data.sum(0), 10) << "twice the 4";
}

TEST(step_queue, a_step_of_another_shape_is_another_one) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 1; i <= 3; ++i)
    for (const std::uint32_t num_blocks : {1U, 2U}) data.add(1, {.num_blocks = num_blocks});
  EXPECT_EQ(data.sum(), 6);
  EXPECT_EQ(runtime.num_calls("cudaGraphInstantiate"), 2U);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
  data.note(1);
  data.add(1); // twice as long
  data.steps.copy_out(data.sent(3), data.sent(2), 0);
  data.steps.launch(kernel_id::add, {0, 1, 32, 0}, add_params{});
  data.steps.issue(); // nothing at all
  EXPECT_EQ(data.sum(), 8);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 4U);
}

TEST(step_queue, kernels_are_part_of_the_shape) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  const memory at(data.on, memory_kind::on_device, bytes), back(data.on, memory_kind::pinned, bytes);
  data.queue.fill(at.data(), 0, bytes);
  std::fill_n(data.sent(0), count, 1.0F);
  auto* const values = reinterpret_cast<float*>(at.data());
  const auto* const fetched = reinterpret_cast<const float*>(back.data());
  static_assert(sizeof(add_params) != sizeof(gather_params));
  for (int i = 0; i < 3; ++i) {
    data.steps.copy_in(values, data.sent(0), bytes);
    data.steps.launch(kernel_id::add, {1, 1, 32, 0}, add_params{values, count, values, count, count});
    data.steps.copy_out(back.data(), values, bytes);
    data.steps.issue();
    EXPECT_EQ(fetched[0], 2);
    data.steps.copy_in(values, data.sent(0), bytes);
    data.steps.launch(kernel_id::gather, {1, 1, 32, 0},
                      gather_params{values, count, values, count, nullptr, count});
    data.steps.copy_out(back.data(), values, bytes);
    data.steps.issue();
    EXPECT_EQ(fetched[0], 1);
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphInstantiate"), 2U);
}

TEST(step_queue, shapes_that_have_not_come_for_long_are_forgotten) {
  emulation::emulated_runtime runtime;
  {
    sums_on_gpu data(runtime);
    data.add(1);
    data.add(1);
    data.add(1, {.num_blocks = 2});
    data.add(1, {.num_blocks = 2});
    const auto owned = runtime.num_owned();
    for (std::uint32_t other = 3; other < 3 + step_queue::max_shapes - 1; ++other) {
      data.add(1, {.num_blocks = other});
      if (other == 10) data.add(1); // occurs again
    }
    EXPECT_EQ(runtime.num_owned(), owned - 2) << "one of the graphs, and what launches it";
    const auto num_launches = runtime.num_calls("cudaGraphLaunch");
    data.add(1);
    EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), num_launches + 1) << "the other is still there";
    data.add(1, {.num_blocks = 2});
    EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), num_launches + 1) << "new again";
    EXPECT_EQ(data.sum(), static_cast<float>(4 + step_queue::max_shapes - 1 + 3));
  }
  EXPECT_EQ(runtime.num_owned(), 0U);
}

TEST(step_queue, a_large_step_is_issued_as_it_comes) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 1; i <= 3; ++i) {
    data.note(1);
    data.steps.go_on_directly();
    EXPECT_EQ(data.sum(), static_cast<float>(2 * i - 1));
    data.note(1);
    EXPECT_EQ(data.sum(), static_cast<float>(2 * i));
    data.steps.issue();
    EXPECT_EQ(data.sum(), static_cast<float>(2 * i));
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 0U);
  data.add(1);
  data.add(1);
  EXPECT_EQ(data.sum(), 8);
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 1U) << "the next step may be a graph";
}

TEST(step_queue, what_is_forgotten_is_not_issued) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  for (int i = 1; i <= 3; ++i) {
    data.note(5, {.sum = 1});
    data.steps.forget();
    data.steps.issue();
    data.add(1);
    EXPECT_EQ(data.sum(0), static_cast<float>(i));
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 2U);
  data.add(1, {.sum = 1});
  EXPECT_EQ(data.sum(1), 1);
}

TEST(step_queue, makes_room_when_what_is_noted_and_under_way_has_been_done) {
  scripted_runtime runtime;
  sums_on_gpu data(runtime);
  memory room(data.on, memory_kind::on_device, bytes);
  runtime.follow(std::vector<std::size_t>(2 * 3 + 2, 0));
  data.add(1, {.sent_at = 0});
  data.note(2, {.sent_at = 1});
  data.steps.make_room(room, bytes);
  EXPECT_EQ(runtime.num_done(), 0U) << "there is room";
  const auto num_released = runtime.num_calls("cudaFree");
  data.steps.make_room(room, bytes + 1);
  EXPECT_EQ(runtime.num_calls("cudaFree"), num_released + 1);
  EXPECT_EQ(data.sum(), 3) << "done before the old memory went";
  EXPECT_EQ(room.size_bytes(), bytes + 1);
}

TEST(step_queue, a_shape_that_cannot_become_a_graph_goes_on_without) {
  for (const char* call :
       {"cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphAddMemcpyNode1D", "cudaGraphInstantiate"}) {
    for (const auto how : {failure_kind::other, failure_kind::out_of_memory}) {
      emulation::emulated_runtime runtime;
      {
        sums_on_gpu data(runtime);
        runtime.fail(call, 0, how);
        for (int i = 1; i <= 4; ++i) {
          data.add(1);
          EXPECT_EQ(data.sum(), static_cast<float>(i)) << call;
        }
        EXPECT_EQ(runtime.num_calls("cudaGraphCreate"), 1U) << call << ": it is not tried again";
        EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 0U) << call;
        runtime.fail(call, 0, how);
        for (int i = 0; i < 3; ++i) data.add(1, {.num_blocks = 2});
        EXPECT_EQ(runtime.num_calls("cudaGraphCreate"), 2U) << call << ": another shape is";
        EXPECT_EQ(data.sum(), 7);
        ASSERT_EQ(data.said.size(), 1U) << call << ": said once";
        EXPECT_EQ(data.said[0].find("steps go on without a CUDA graph: cuda:0: " + std::string(call)), 0U)
            << data.said[0];
        EXPECT_NE(data.said[0].find(", at gpu/step_graph.cpp:"), std::string::npos) << data.said[0];
      }
      EXPECT_EQ(runtime.num_owned(), 0U) << call;
    }
  }
}

TEST(step_queue, a_graph_that_cannot_be_changed_goes_and_its_step_is_done_without) {
  const char* const call = "cudaGraphExecMemcpyNodeSetParams1D";
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  data.add(1);
  data.add(1);
  runtime.fail(call, 0, failure_kind::other);
  for (int i = 1; i <= 3; ++i) {
    data.add(1, {.sent_at = 1});
    EXPECT_EQ(data.sum(), static_cast<float>(2 * i + 1));
    data.add(1);
    EXPECT_EQ(data.sum(), static_cast<float>(2 * i + 2));
  }
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 1U);
  ASSERT_EQ(data.said.size(), 1U);
  EXPECT_NE(data.said[0].find(call), std::string::npos) << data.said[0];
}

TEST(step_queue, a_launch_that_fails_is_an_error_with_its_call_device_and_place) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  data.add(1);
  runtime.fail("cudaGraphLaunch", 0, failure_kind::out_of_memory);
  try {
    data.add(1);
    ADD_FAILURE() << "not told";
  } catch (const cuda_failure& e) {
    EXPECT_EQ(e.error().code(), errc::resource_exhausted);
    const std::string& told = e.error().message();
    EXPECT_EQ(
        told.find("cuda:0: cudaGraphLaunch of 3 nodes: emulated: out of memory, at gpu/step_graph.cpp:"), 0U)
        << told;
  }
  data.steps.issue();
  data.add(1);
  EXPECT_EQ(data.sum(), 2) << "the failed step is over, those that follow do without the graph";
  EXPECT_EQ(runtime.num_calls("cudaGraphLaunch"), 1U);
  EXPECT_EQ(data.said.size(), 1U);
}

TEST(step_queue, a_lost_device_is_told_by_whatever_call_meets_it) {
  for (const char* call : {"cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphAddMemcpyNode1D",
                           "cudaGraphInstantiate", "cudaGraphLaunch", "cudaGraphExecMemcpyNodeSetParams1D"}) {
    emulation::emulated_runtime runtime;
    {
      sums_on_gpu data(runtime);
      data.add(1);
      runtime.fail(call, 0, failure_kind::device_lost);
      try {
        data.add(1);
        data.add(1, {.sent_at = 1});
        ADD_FAILURE() << call;
      } catch (const cuda_failure& e) {
        EXPECT_EQ(e.error().code(), errc::device_lost) << call;
        EXPECT_NE(e.error().message().find(call), std::string::npos) << e.error().message();
      }
      data.steps.issue(); // nothing is left
    }
    EXPECT_EQ(runtime.num_owned(), 0U) << call;
  }
}

TEST(step_queue, a_step_whose_issue_fails_is_over) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  data.note(1);
  runtime.fail("cudaLaunchKernel", 0, failure_kind::other);
  EXPECT_THROW(data.steps.issue(), cuda_failure);
  data.add(1);
  EXPECT_EQ(data.sum(), 1) << "what failed is not issued again";
}

TEST(step_queue, what_is_recorded_is_not_done) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  data.note(1); // precedes the recording
  data.steps.begin_recording();
  EXPECT_EQ(data.sum(), 1.0F);
  data.note(20);
  const auto recorded = data.steps.end_recording();
  EXPECT_FALSE(data.steps.has_moved());
  ASSERT_EQ(recorded.commands.size(), 3U);
  EXPECT_EQ(recorded.commands[1].kernel, kernel_id::add);
  EXPECT_EQ(static_cast<const add_params*>(recorded.params_of(recorded.commands[1]))->width, count);
  data.add(300);
  EXPECT_EQ(data.sum(), 301.0F);
}

TEST(step_queue, a_recording_says_that_memory_has_moved_and_leaves_the_step_before_alone) {
  emulation::emulated_runtime runtime;
  sums_on_gpu data(runtime);
  memory grows;
  data.steps.begin_recording();
  data.note(20);
  data.steps.make_room(grows, 100);
  EXPECT_TRUE(data.steps.has_moved());
  EXPECT_EQ(data.steps.end_recording().commands.size(), 3U);
  data.steps.begin_recording();
  data.steps.make_room(grows, 100);
  EXPECT_FALSE(data.steps.has_moved()) << "there is room";
  data.steps.end_recording();
  data.add(1);
  EXPECT_EQ(data.sum(), 1.0F);
}

} // namespace
} // namespace paceline::gpu
