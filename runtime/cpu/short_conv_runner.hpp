#pragma once

#include "runtime/cpu/row_kernels.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_short_conv.hpp"

#include <cstdint>
#include <vector>

namespace paceline::cpu {

/// Executes device::short_conv_args on a team. Channels do not depend on each other, so they are divided
/// among the members. Each member computes its channels of all rows, in order. The runner keeps its memory
/// between calls; one call at a time.
class short_conv_runner {
 public:
  /// `team` must outlive the runner.
  explicit short_conv_runner(thread_team& team) : team_(team) {}

  void run(const device::short_conv_args& args);

 private:
  void find_inputs(const device::short_conv_args& args);
  void convolve(const device::short_conv_args& args, row_range channels) const;

  thread_team& team_;
  /// [row][num_taps], oldest first: the vector z (op_short_conv.hpp) that each tap of the row multiplies, as
  /// the address of channel 0; null: zeros.
  std::vector<const float*> inputs_;
};

} // namespace paceline::cpu
