// A GPU's gated delta rule has the bits of the CPU's, and leaves the same states.
#include "runtime/cpu/cpu_ops.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/tensor_compare.hpp"

#include <chrono>
#include <optional>
#include <vector>

namespace paceline::gpu {
namespace {

using test::same_bits;

class gpu_gated_delta : public gpu_test {};

/// A text whose first rows were computed before (their state is in slot 0), below its last row a tree, and a
/// text that begins in this pass. Rows 1 and 4 leave nothing, and row 3 needs the state of row 1 again.
std::vector<device::row_state> rows_of_a_pass() {
  const auto slot = [](std::uint32_t s) { return std::optional(state_slot{s}); };
  return {{-1, slot(0), slot(1)}, {0, {}, {}},      {1, {}, slot(2)},  {1, {}, slot(3)}, {2, {}, {}},
          {3, {}, slot(4)},       {4, {}, slot(5)}, {-1, {}, slot(6)}, {7, {}, slot(7)}};
}

TEST_F(gpu_gated_delta, outputs_and_states_are_those_of_the_cpu) {
  cpu::thread_team team({1, {}, std::chrono::microseconds(1)});
  cpu::cpu_ops reference(team, cpu::kernel_level::scalar);
  const auto rows = rows_of_a_pass();
  for (const device::delta_heads& heads : {device::delta_heads{2, 6, 16, 16, false},
                                           {3, 3, 12, 21, false},
                                           {2, 4, 32, 40, true},
                                           {1, 2, 128, 32, false},
                                           {1, 1, 256, 16, false}}) {
    const std::size_t beta_at = 2 * heads.keys_size() + heads.values_size(),
                      out_at = beta_at + 2 * heads.num_values;
    const std::size_t stride = out_at + heads.values_size() + 1, slot = heads.state_values() + 3;
    auto x = values(stride * rows.size(), 0.02F), states = values(slot * 8, 0.02F);
    auto decay = values(heads.num_values);
    for (float& one : decay) one = -one * one;
    const auto dt_bias = values(heads.num_values);
    float* const x_there = upload(x);
    float* const states_there = upload(states);
    device::gated_delta_args args;
    const auto place = [&](float* rows_at, float* states_at) {
      args.x = rows_at;
      args.beta = rows_at + beta_at;
      args.alpha = args.beta + heads.num_values;
      args.out = rows_at + out_at;
      args.states = {states_at, slot, 8};
    };
    args.rows = rows;
    args.heads = heads;
    args.stride = stride;
    args.scale = 0.125F;
    args.decay = decay.data();
    args.dt_bias = dt_bias.data();
    place(x.data(), states.data());
    reference.gated_delta(args);
    place(x_there, states_there);
    args.decay = upload(decay);
    args.dt_bias = upload(dt_bias);
    run([&](device::ops& ops) { ops.gated_delta(args); });
    EXPECT_TRUE(same_bits(x, download(x_there, x.size()))) << "keys of " << heads.key_dim;
    EXPECT_TRUE(same_bits(states, download(states_there, states.size()))) << "keys of " << heads.key_dim;
  }
}

} // namespace
} // namespace paceline::gpu
