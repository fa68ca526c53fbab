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

/// Launches the part of a mixture of experts (runtime/device/op_expert_mixture.hpp) that follows the router's
/// product: the selection of experts, the products of the (row, expert) pairs, and their sums. The pairs are
/// sorted by expert. The launches depend only on shapes, so the host does not wait for the selection. Each
/// product has the same bits as a matmul with the expert's matrix. One object for each queue, used by the
/// queue's thread. Functions throw cuda_failure.
class expert_products {
 public:
  /// Largest number of rows in a call of `run`. It limits the memory that this object allocates.
  static constexpr std::uint32_t most_rows = 1024;

  explicit expert_products(step_queue& steps) : steps_(steps) {}

  /// The caller has checked `args`, has normed the rows if the op has a norm, and has written the router's
  /// logits to the beginning of the workspace.
  void run(const device::expert_mixture_args& args, const expert_sets& sets);

 private:
  /// The rows that a product multiplies, converted at most once for each kind of weights.
  struct pair_inputs {
    device_rows rows;
    std::uint32_t pairs_of_row = 1; ///< pair i has row i / pairs_of_row
    std::uint32_t num_planes = 1;   ///< of each row after quantisation
    std::optional<arranged_rows> arranged;
    std::optional<quantised_rows> quantised;
  };
  /// The parts of a call's workspace.
  struct places {
    float* products = nullptr; ///< [pair][2 inner]: gate and up
    float* outputs = nullptr;  ///< [pair][num_outputs]
    float* inputs = nullptr;   ///< [pair][num_cols], used if `weigh_inputs`
    std::uint32_t inner = 0, num_outputs = 0;
  };
  /// Results of a product. If there are several splits, these are partial sums, which a later kernel adds.
  struct split_products {
    const float* at = nullptr; ///< [num_splits][num_pairs][num_outputs]
    std::uint32_t num_splits = 1;
  };

  expert_pairs route(const device::expert_mixture_args& args);
  pair_inputs inputs_of(const device::expert_mixture_args& args, const expert_pairs& pairs, const places& at);
  void multiply_up(const device::expert_mixture_args& args, const expert_sets& sets,
                   const expert_pairs& pairs, const places& at);
  split_products multiply_down(const expert_sets& sets, const expert_pairs& pairs, const places& at);
  /// Multiplies the row of each pair with its expert's matrix from `set`, and writes the products to `y`.
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
