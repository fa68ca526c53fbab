#pragma once

#include "runtime/cpu/matmul.hpp"
#include "runtime/cpu/row_runner.hpp"
#include "runtime/device/op_expert_mixture.hpp"

#include <cstdint>
#include <vector>

namespace paceline::cpu {

/// Executes device::expert_mixture_args on a team, for normed rows. Rows are sorted by expert, so that each
/// expert's tiles are read once and multiplied with all rows that use it. Keeps its memory between calls; one
/// call at a time.
class expert_runner {
 public:
  /// All must outlive the runner.
  expert_runner(thread_team& team, matmul_runner& matmul, row_runner& rows)
      : team_(team), matmul_(matmul), rows_(rows) {}

  /// `x` of `args` has no norm.
  void run(const device::expert_mixture_args& args);

 private:
  /// Where a call's workspace is divided.
  struct places {
    float* logits = nullptr;   ///< [num_rows][num_experts]
    float* products = nullptr; ///< [position][2 inner]: gate and up
    float* outputs = nullptr;  ///< [position][num_outputs]
    float* inputs = nullptr;   ///< [position][num_cols], with weigh_inputs
    std::uint32_t inner = 0, num_outputs = 0;
  };

  void route_rows(const device::expert_mixture_args& args, const places& at);
  void sort_by_expert(const device::expert_mixture_args& args);
  void weigh_inputs(const device::expert_mixture_args& args, const places& at);
  void multiply_up(const device::expert_mixture_args& args, const places& at);
  void multiply_down(const device::expert_mixture_args& args, const places& at);
  void add_up(const device::expert_mixture_args& args, const places& at);

  thread_team& team_;
  matmul_runner& matmul_;
  row_runner& rows_;
  std::vector<device::used_expert> used_;  ///< [row][slot]
  std::vector<std::uint32_t> position_of_; ///< [row][slot]: its place in the order by expert
  std::vector<std::uint32_t> row_at_;      ///< of each position
  std::vector<float> weight_at_;           ///< likewise
  /// The experts that are used, ascending, with their positions.
  struct group {
    std::uint32_t expert = 0;
    std::uint32_t begin = 0, end = 0;
  };
  std::vector<group> groups_;
  std::vector<std::uint32_t> counts_;
  std::vector<device::matmul_output> products_of_groups_;
  std::vector<row_segment> segments_;
};

} // namespace paceline::cpu
