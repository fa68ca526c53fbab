#pragma once

#include "gpu/cuda_matrix.hpp"
#include "gpu/kernels/expert_params.hpp"
#include "gpu/product_inputs.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/device/op_expert_mixture.hpp"

#include <cstdint>
#include <optional>

namespace paceline::gpu {

/// The experts of a mixture on a GPU.
struct expert_sets {
  const cuda_matrix_set* gate;
  const cuda_matrix_set* up;
  const cuda_matrix_set* down;
};

/// Launches what follows the router's product in a mixture of experts (runtime/device/op_expert_mixture.hpp):
/// the selection of experts, the products of each (row, expert) pair sorted by expert, and their sums. The
/// launches depend on the shapes only, and the host waits for nothing. Each product has the bits of the same
/// product with the expert's matrix alone. One object for each queue.
class expert_products {
 public:
  /// Largest number of rows of a call, which bounds the memory of its own.
  static constexpr std::uint32_t most_rows = 1024;

  explicit expert_products(step_queue& steps) : steps_(steps) {}

  /// `args` has been checked; its rows are normed, if they are to be. The logits are at the beginning of the
  /// workspace.
  void run(const device::expert_mixture_args& args, const expert_sets& sets);

 private:
  /// What a product multiplies, converted at most once for each kind of weights.
  struct pair_inputs {
    device_rows rows;
    std::uint32_t pairs_of_row = 1; ///< pair i has row i / pairs_of_row
    std::uint32_t num_planes = 1;   ///< of rows that are quantised
    std::optional<arranged_rows> arranged;
    std::optional<quantised_rows> quantised;
  };
  /// Where a call's workspace is divided.
  struct places {
    float* products = nullptr; ///< [pair][2 inner]: gate and up
    float* outputs = nullptr;  ///< [pair][num_outputs]
    float* inputs = nullptr;   ///< [pair][num_cols], with weigh_inputs
    std::uint32_t inner = 0, num_outputs = 0;
  };
  /// Results of a product, perhaps in parts that are to be added up.
  struct split_products {
    const float* at = nullptr; ///< [num_splits][num_pairs][num_outputs]
    std::uint32_t num_splits = 1;
  };

  expert_pairs route(const device::expert_mixture_args& args);
  pair_inputs inputs_of(const device::expert_mixture_args& args, const expert_pairs& pairs, const places& at);
  void multiply_up(const device::expert_mixture_args& args, const expert_sets& sets,
                   const expert_pairs& pairs, const places& at);
  split_products multiply_down(const expert_sets& sets, const expert_pairs& pairs, const places& at);
  /// Products of all pairs with matrices of `set`, in `y`.
  void multiply(const cuda_matrix_set& set, const expert_pairs& pairs, pair_inputs& inputs, float* y,
                std::size_t y_stride);
  void multiply_stored(const cuda_matrix_set& set, const expert_pairs& pairs, pair_inputs& inputs, float* y,
                       std::size_t y_stride);
  expert_stream_params stream_params(const cuda_matrix_set& set, const expert_pairs& pairs,
                                     pair_inputs& inputs);
  void divide(expert_stream_params& product);
  void stream(const expert_stream_params& product);
  void add_up(const expert_stream_params& product);

  step_queue& steps_;
  memory pairs_;     ///< of the current rows
  memory arranged_;  ///< inputs of the current product
  memory quantised_; ///< likewise
  memory partial_;   ///< partial sums of the current product
};

} // namespace paceline::gpu
