#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/model/model_config.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace paceline::model {

/// Weights of a layer's mixture of experts.
struct expert_weights {
  std::unique_ptr<const device::matrix> router;             ///< [num_experts][hidden_size]
  std::unique_ptr<const device::matrix_set> gate, up, down; ///< of each expert
  const float* selection_bias = nullptr;                    ///< [num_experts]; null: none
  /// Weights of the shared expert; null if there is none. `shared_scale`, its gate, is [1][hidden_size].
  std::unique_ptr<const device::matrix> shared_scale, shared_gate, shared_up, shared_down;

  /// Bytes that every row reads: the router and the shared expert.
  std::uint64_t bytes_of_every_row() const noexcept;
  std::uint64_t size_bytes() const noexcept {
    return bytes_of_every_row() + gate->size_bytes() + up->size_bytes() + down->size_bytes();
  }
};

/// Weights of a gated short convolution (runtime/device/op_short_conv.hpp).
struct conv_weights {
  std::unique_ptr<const device::matrix> in;  ///< [3 * hidden_size][hidden_size]: rows of B, C and u
  std::unique_ptr<const device::matrix> out; ///< [hidden_size][hidden_size]
  const float* taps = nullptr;               ///< [num_taps][hidden_size]
  const float* in_bias = nullptr;            ///< this and the next two: null if there is none
  const float* bias = nullptr;
  const float* out_bias = nullptr;
};

/// Weights of a gated delta rule (runtime/device/op_gated_delta.hpp).
struct delta_weights {
  std::unique_ptr<const device::matrix> qkv;         ///< [delta_channels][hidden_size]: queries, keys, values
  std::unique_ptr<const device::matrix> gate;        ///< [values_size][hidden_size]: gate of the output
  std::unique_ptr<const device::matrix> beta, alpha; ///< [num_values][hidden_size]
  std::unique_ptr<const device::matrix> out;         ///< [hidden_size][values_size]
  const float* taps = nullptr;                       ///< [num_taps][delta_channels]
  const float* decay = nullptr;                      ///< [num_values]
  const float* dt_bias = nullptr;                    ///< [num_values]
  const float* norm = nullptr;                       ///< [value_dim]: norm of each head of the output
};

/// A layer's weights on the device. Vectors point into one buffer of the model; absent vectors and matrices
/// are null.
struct layer_weights {
  std::unique_ptr<const device::matrix> q, k, v, attention_output;
  std::unique_ptr<const device::matrix> ffn_gate, ffn_up, ffn_down; ///< null in a layer with experts
  std::unique_ptr<expert_weights> experts;
  conv_weights conv;   ///< of a layer with a short convolution; such a layer has no attention weights
  delta_weights delta; ///< of a layer with a gated delta rule; such a layer has no attention weights
  /// [q_size][hidden]: attention's output is multiplied by sigmoid(gate * normed input). Null: no gate.
  std::unique_ptr<const device::matrix> attention_gate;
  const float* attention_norm = nullptr; ///< null: attention reads the residual stream as it is
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* attention_output_bias = nullptr;
  const float* post_attention_norm = nullptr;
  const float* ffn_norm = nullptr; ///< null: the feed-forward block reads the residual stream as it is
  const float* post_ffn_norm = nullptr;
  /// True: the products of attention's inputs (or of the feed-forward block's inputs) quantise these inputs
  /// as two planes of 8 bits (`two_planes` of device::matmul_args). norm_outliers.hpp says when.
  bool precise_attention_inputs = false;
  bool precise_ffn_inputs = false;

  std::uint64_t matrix_bytes() const noexcept;
  /// Bytes of matrices that a pass over one row reads, if the row uses `num_used` experts.
  std::uint64_t bytes_per_row(std::uint32_t num_used) const noexcept;
};

/// Intermediate values of the rows of a pass, in the stream's scratch memory.
struct layer_memory {
  float* hidden = nullptr; ///< [num_rows][hidden_size]: the residual stream
  /// [num_rows][hidden_size]: the normed input of a product, or the output of a product before its norm
  float* normed = nullptr;
  float* qkv = nullptr;      ///< [num_rows][q_size + 2 * kv_size]: queries, keys and values, adjacent
  float* attended = nullptr; ///< [num_rows][q_size]
  float* conv = nullptr;     ///< [num_rows][3 * hidden_size], for layers with a short convolution
  /// [num_rows][delta_row_size], for layers with a gated delta rule: the convolution's input and output,
  /// the gate of the output, the output, beta and alpha
  float* delta = nullptr;
  float* gates = nullptr;   ///< [num_rows][q_size]; for layers with `attention_gate`
  float* gate_up = nullptr; ///< [num_rows][2 * ffn_size]; the activated gate overwrites the gate
  float* shared = nullptr;  ///< [num_rows][2 * shared_ffn_size], for layers with a shared expert: gate and up
  float* shared_out = nullptr; ///< [num_rows][hidden_size + 1]: the shared expert's output, then its factor
  float* experts = nullptr;    ///< workspace of device::expert_mixture_args, for layers with experts
};

/// Number of values in a row of `layer_memory::delta`.
std::size_t delta_row_size(const model_config& config) noexcept;

/// Number of values in a row of each array of `layer_memory` that feed-forward blocks use; 0: no layer uses
/// the array.
struct feed_forward_sizes {
  std::size_t gate_up, experts, shared, shared_out;
};
feed_forward_sizes feed_forward_row_sizes(const model_config& config) noexcept;

/// The state of a layer with a gated delta rule.
struct delta_layer_states {
  device::conv_states conv; ///< inputs of its convolution
  device::delta_states matrices;
};

/// The input from which a layer computes queries, keys and values.
struct attention_input {
  const float* x = nullptr; ///< [num_rows][num_cols], rows `num_cols` values apart
  std::uint32_t num_cols = 0;
  const float* norm = nullptr; ///< [num_cols], applied first; null: none
};

/// The KV cells, the rotation and the window of a layer's attention.
struct attention_view {
  device::kv_layer cells;
  const float* rope_table = nullptr;       ///< from ops::rope_table; null: heads are not rotated
  std::uint32_t window = 0;                ///< positions that a row sees; 0: all
  const float* query_rope_table = nullptr; ///< for queries; null: they use `rope_table`
};

/// The ops of decoder layers over the rows of one pass: for language models and for draft heads.
class decoder_layers {
 public:
  /// `ops`, `batch` and `config` must outlive the object.
  decoder_layers(device::ops& ops, const device::row_batch& batch, const model_config& config,
                 const layer_memory& memory)
      : ops_(ops), batch_(batch), config_(config), memory_(memory) {}

  /// hidden += attention(input).
  void attend(const layer_weights& weights, const attention_input& input, const attention_view& view);
  /// The three steps of `attend`. `project` computes queries, keys and values of all rows. `run_attention`
  /// computes attention for `rows`: consecutive rows of the pass, beginning with its row `first`. Their
  /// positions may differ from those in the pass. `add_attended` adds the output of all rows to hidden.
  void project(const layer_weights& weights, const attention_input& input, const attention_view& view);
  void run_attention(const device::row_batch& rows, std::uint32_t first, const attention_view& view);
  void add_attended(const layer_weights& weights);
  /// hidden += short_convolution(norm(hidden)). `states`: this layer's states.
  void convolve(const layer_weights& weights, const device::conv_states& states);
  /// hidden += gated_delta_rule(norm(hidden)). `states`: this layer's states. `unit_norm`: key_dim values,
  /// each 1 / sqrt(key_dim). An RMS norm with these weights divides queries and keys by their Euclidean norm.
  void apply_delta_rule(const layer_weights& weights, const delta_layer_states& states,
                        const float* unit_norm);
  /// hidden += feed_forward(norm(hidden)). The block may be a mixture of experts. A dense block may lack the
  /// norm.
  void feed_forward(const layer_weights& weights);
  /// y = norm(x); both are [num_rows][hidden_size].
  void norm(const float* x, float* y, const float* weight, std::uint32_t num_rows);

 private:
  void mix_experts(const layer_weights& weights);
  void run_shared_expert(const expert_weights& weights, bool two_planes);
  void add_to_hidden(const float* x, std::size_t x_stride, const device::matrix& weights, const float* bias,
                     const float* post_norm);
  std::uint32_t num_rows() const noexcept { return static_cast<std::uint32_t>(batch_.rows.size()); }

  device::ops& ops_;
  const device::row_batch& batch_;
  const model_config& config_;
  const layer_memory memory_;
};

} // namespace paceline::model
