#pragma once

#include "runtime/cpu/row_kernels.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_gated_delta.hpp"

#include <vector>

namespace paceline::cpu {

/// Executes device::gated_delta_args on a team. Columns of a state do not depend on each other, so groups of
/// columns are divided among the team's threads (members). A member computes a group for all rows of a text
/// (device::state_plan), in order. The runner keeps its memory between calls; one call at a time.
class gated_delta_runner {
 public:
  /// `team` and `kernels` must outlive the runner.
  gated_delta_runner(thread_team& team, const row_kernels& kernels) : team_(team), kernels_(kernels) {}

  void run(const device::gated_delta_args& args);

 private:
  void compute_factors(const device::gated_delta_args& args);

  thread_team& team_;
  const row_kernels& kernels_;
  std::vector<delta_factors> factors_; ///< [num_rows][num_values]
  /// One row of a group of columns. It has a cache line of its own, so that no vector load crosses two lines.
  struct alignas(64) state_row {
    float columns[device::delta_columns];
  };
  std::vector<state_row> running_; ///< [member][key_dim]: `delta_unit::running`
};

} // namespace paceline::cpu
