// A GPU's short convolution has the bits of the CPU's, and leaves the same states.
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/tensor_compare.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace paceline::gpu {
namespace {

using test::same_bits;

class gpu_short_conv : public gpu_test {};

/// A text whose first rows were computed before (their state is in slot 0), below its last row a tree, and a
/// text that begins in this pass. Two rows leave nothing.
std::vector<device::row_state> rows_of_a_pass() {
  const auto slot = [](std::uint32_t s) { return std::optional(state_slot{s}); };
  return {{-1, slot(0), {}}, {0, {}, slot(1)}, {1, {}, slot(2)}, {1, {}, slot(3)}, {2, {}, slot(4)},
          {3, {}, slot(5)},  {4, {}, slot(6)}, {-1, {}, {}},     {7, {}, slot(7)}};
}

TEST_F(gpu_short_conv, outputs_and_states_are_those_of_the_cpu) {
  cpu::thread_team team({1, {}, std::chrono::microseconds(1)});
  cpu::cpu_ops reference(team, cpu::kernel_level::scalar);
  const auto rows = rows_of_a_pass();
  for (const std::uint32_t taps : {2U, 3U, 4U, 7U})
    for (const std::uint32_t width : {1U, 33U, 256U, 300U})
      for (const bool gated : {false, true}) {
        const bool bias = gated == (taps % 2 == 0);
        const std::size_t stride = 3 * std::size_t{width} + 5,
                          slot_stride = std::size_t{taps - 1} * width + 3;
        auto x = values(stride * rows.size()), states = values(slot_stride * 8);
        const auto weights = values(std::size_t{taps} * width), biases = values(width);
        float* const x_there = upload(x);
        float* const states_there = upload(states);
        device::short_conv_args args;
        args.rows = rows;
        const auto place = [&](float* rows_at) {
          args.u = rows_at + 2 * std::size_t{width};
          args.in_gate = gated ? rows_at : nullptr;
          args.out_gate = gated ? rows_at + width : nullptr;
          args.out = rows_at;
        };
        place(x.data());
        args.stride = stride;
        args.width = width;
        args.num_taps = taps;
        args.weights = weights.data();
        args.bias = bias ? biases.data() : nullptr;
        args.states = {states.data(), slot_stride, 8};
        reference.short_conv(args);
        place(x_there);
        args.weights = upload(weights);
        args.bias = bias ? upload(biases) : nullptr;
        args.states.values = states_there;
        run([&](device::ops& ops) { ops.short_conv(args); });
        EXPECT_TRUE(same_bits(x, download(x_there, x.size()))) << taps << " taps, width " << width;
        EXPECT_TRUE(same_bits(states, download(states_there, states.size())))
            << taps << " taps, width " << width;
      }
}

} // namespace
} // namespace paceline::gpu
