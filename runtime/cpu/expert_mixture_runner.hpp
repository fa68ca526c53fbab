#pragma once

#include "runtime/cpu/matmul.hpp"
#include "runtime/cpu/row_runner.hpp"
#include "runtime/device/op_expert_mixture.hpp"

#include <cstdint>
#include <vector>

namespace paceline::cpu {

/// Executes device::expert_mixture_args on a team. A slot is one of the experts that a row uses. Pairs of row
/// and slot are sorted by expert, so that each expert's tiles are read once and multiplied with all rows that
/// use the expert. A position is an index into this order. The runner keeps its memory between calls. Not
/// thread-safe.
class expert_mixture_runner {
 public:
  /// The arguments must outlive the runner.
  expert_mixture_runner(thread_team& team, matmul_runner& matmul, row_runner& rows)
      : team_(team), matmul_(matmul), rows_(rows) {}

  /// `args.x` is already normed, and `args.norm` is empty.
  void run(const device::expert_mixture_args& args);

 private:
  /// The parts of a call's workspace.
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
  std::vector<std::uint32_t> position_of_; ///< [row][slot]
  std::vector<std::uint32_t> row_at_;      ///< [position]
  std::vector<float> weight_at_;           ///< [position]
  /// An expert that is used, with its positions [begin, end).
  struct group {
    std::uint32_t expert = 0;
    std::uint32_t begin = 0, end = 0;
  };
  // Ascending by expert.
  std::vector<group> groups_;
  std::vector<std::uint32_t> counts_;
  std::vector<device::matmul_output> products_of_groups_;
  std::vector<row_segment> segments_;
};

} // namespace paceline::cpu
