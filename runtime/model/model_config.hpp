#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/expert_routing.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_rope.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

/// Decoder families that the forward pass supports. Their differences are fields of model_config; code should
/// not need to ask for the family.
enum class architecture : std::uint8_t {
  llama,     ///< Llama 1-3, SmolLM2, Mistral
  qwen2,     ///< Qwen 2, 2.5: biases on Q, K and V
  qwen3,     ///< Qwen 3: a norm on each head of Q and K
  qwen3moe,  ///< Qwen 3 with a mixture of experts
  lfm2,      ///< LFM2: short convolutions and attention
  lfm2moe,   ///< LFM2 with a mixture of experts
  qwen35,    ///< Qwen 3.5 and later: gated delta rules and attention with output gates
  qwen35moe, ///< the same with a mixture of experts
  qwen3next, ///< Qwen3-Next: like qwen35moe, but files pack some matrices differently
  granite,   ///< Granite 3 (dense): factors of embeddings, attention, residual stream and logits
  mistral3,  ///< Ministral 3, Mistral Small 3: queries grow with their position
  olmo2,     ///< OLMo 2 and 3: norms after blocks only, QK norm over all heads, windows
  phi3,      ///< Phi-3, Phi-4: fused projections, LongRoPE, partial rotation
  smollm3,   ///< SmolLM3: some layers without rotation
  gemma3,    ///< Gemma 3 (text): four norms a layer, QK norm, scaled embedding, local and global layers
};

std::string_view to_string(architecture arch) noexcept;

/// The block that a layer has before its feed-forward block.
enum class layer_kind : std::uint8_t {
  attention,
  short_conv,  ///< a gated short convolution (runtime/device/op_short_conv.hpp)
  gated_delta, ///< a gated delta rule after a convolution (runtime/device/op_gated_delta.hpp)
};

/// The convolutions of layers that have one.
struct conv_config {
  std::uint32_t num_taps =
      0;             ///< rows that a convolution reads, its own included; 0: there are no such layers
  bool bias = false; ///< gated short convolutions have biases: of both products and of the taps
};

/// Which products of a gated delta rule are one tensor in a file. Such a tensor has all rows of the first key
/// head, then all rows of the second, and so on.
struct delta_packing {
  /// The gate's rows are in the tensor of queries, keys and values. For each key head the tensor has the
  /// query, the key, the values and the gates.
  bool fuses_gate = false;
  /// The rows of alpha are in the tensor of beta. For each key head the tensor has the betas and the alphas.
  bool fuses_beta = false;
};

/// Order of the rows of Q and K in a file. It is interleaved in the GGUF files of some families, whose
/// converter permutes them (family_traits::interleaved_in_gguf), and half-split in all other files.
using device::rope_layout;

/// Activation function of the gate in the feed-forward block.
using gate_activation = device::activation;

/// How rotary frequencies are changed for contexts longer than those of the original training.
enum class rope_scaling_kind : std::uint8_t {
  none,
  linear, ///< all frequencies divided by `factor`
  llama3, ///< low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1)
  yarn,   ///< NTK-by-parts interpolation and a magnitude (arXiv:2309.00071)
};

struct rope_scaling {
  rope_scaling_kind kind = rope_scaling_kind::none;
  double factor = 1;                         ///< at least 1
  std::uint32_t original_context_length = 0; ///< positions of the original training; llama3 and yarn
  double low_freq_factor = 1;                ///< llama3
  double high_freq_factor = 4;               ///< llama3; above low_freq_factor
  double beta_fast = 32; ///< yarn: pairs with more rotations in the original context are unchanged
  double beta_slow = 1;  ///< yarn: pairs with fewer rotations in it are fully interpolated
  bool truncate = true;  ///< yarn: the ramp begins and ends at whole dimensions
  double magnitude = 1;  ///< yarn, and LongRoPE, whose kind is none: multiplies cosines and sines
};

/// Rotary position embedding of the rotated values of a head.
struct rope_config {
  double theta = 10000;
  rope_scaling scaling;
  /// Divisor of each pair's frequency, [half the rotated values of a head]; empty: none. LongRoPE has them,
  /// and GGUF files of Llama 3 store their scaling in this form.
  std::vector<float> frequency_divisors;
};

using device::query_growth;

/// Layers whose feed-forward block is a mixture of experts: each row uses a few of many blocks
/// (runtime/device/op_expert_mixture.hpp).
struct expert_config {
  device::expert_routing routing; ///< the pointers are null; num_experts 0: no layer has experts
  bool selection_bias = false;    ///< a layer's router has a bias for the selection of experts
  std::uint32_t ffn_size = 0;     ///< values between gate/up and down of one expert
  /// Values between gate/up and down of the shared expert, which every row uses beside the chosen experts.
  /// The shared expert's output is multiplied by sigmoid(gate . x). 0: there is no shared expert.
  std::uint32_t shared_ffn_size = 0;
  std::vector<bool> layers; ///< [num_layers]: which layers have experts; may be empty if none has
};

/// Expected number of experts of a layer that a pass over `num_rows` rows reads, if each row uses experts
/// uniformly and independently: E * (1 - (1 - k / E)^rows). Neighbouring tokens of real texts often use the
/// same experts, so their passes read fewer (MoESD, arXiv:2505.19645, section 3).
double expected_experts(const expert_config& experts, std::uint32_t num_rows) noexcept;

/// The most layers of a model.
inline constexpr std::uint32_t most_layers = 4096;

/// Hyper-parameters of a decoder. `layout`, `packing` and `delta.tiled` say how its file stores matrices; the
/// other fields do not depend on the format of the file. Values returned by loaders satisfy `validate`.
struct model_config {
  architecture arch = architecture::llama;
  std::string name;                 ///< name in the file; may be empty
  std::uint32_t vocab_size = 0;     ///< rows of the embedding and of the head
  std::uint32_t context_length = 0; ///< positions for which the model was made
  std::uint32_t hidden_size = 0;    ///< values of the residual stream
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0; ///< query heads; a multiple of num_kv_heads
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;   ///< values of one head of Q, K and V; even
  std::uint32_t rotary_dim = 0; ///< number of leading values of a head that are rotated; even; 0: all
  std::uint32_t ffn_size = 0;   ///< values between gate/up and down of layers without experts
  float norm_epsilon = 0;       ///< of every RMS norm
  gate_activation activation = gate_activation::silu;
  rope_layout layout = rope_layout::half_split;
  rope_config rope;       ///< for layers that see all positions
  rope_config local_rope; ///< for layers with a sliding window
  /// Positions that a row sees in a layer with a window, its own included; 0: no layer has a window.
  std::uint32_t sliding_window = 0;
  std::vector<bool> local_layers; ///< [num_layers]: which layers have the window
  float attention_scale = 0;      ///< factor of Q . K
  query_growth growth;            ///< of Q; needs layers that rotate whole heads and have no window
  float embedding_scale = 1;      ///< factor of embedding rows
  float residual_scale = 1;       ///< factor of what a block adds to the residual stream
  float logits_scale = 1;         ///< factor of logits
  bool tied_embeddings = false;   ///< the head is the embedding
  bool qkv_bias = false;
  bool attention_output_bias = false;
  /// [num_layers]; empty: all layers have attention.
  std::vector<layer_kind> layer_kinds;
  /// [num_layers]: layers whose queries and keys are not rotated; empty: none.
  std::vector<bool> unrotated_layers;
  conv_config conv;
  device::delta_heads delta;   ///< of layers with a gated delta rule
  delta_packing packing;       ///< of its matrices in the file
  bool attention_gate = false; ///< attention's output is multiplied by sigmoid(gate): qwen35
  /// Modules after the last layer that predict further tokens (multi-token prediction, MTP). Drafters of kind
  /// `mtp` run them; the model's own passes do not.
  std::uint32_t num_mtp_modules = 0;
  bool qk_norm = false;         ///< RMS norm over each head of Q and K, before the rotation
  bool qk_norm_of_rows = false; ///< that norm is over all heads of a row together (olmo2)
  bool pre_norms = true;        ///< norms before attention and before the feed-forward block; all but olmo2
  bool post_norms = false;      ///< norms after attention and after the feed-forward block (gemma3, olmo2)
  expert_config experts;

  std::uint32_t num_rotated() const noexcept { return rotary_dim != 0 ? rotary_dim : head_dim; }
  std::uint32_t q_size() const noexcept { return num_heads * head_dim; }
  std::uint32_t kv_size() const noexcept { return num_kv_heads * head_dim; }
  /// The kind of a layer. A number beyond the last layer gives `attention`, because files may name such
  /// layers.
  layer_kind kind_of(std::uint32_t layer) const noexcept {
    return layer < layer_kinds.size() ? layer_kinds[layer] : layer_kind::attention;
  }
  /// Number of layers of a kind.
  std::uint32_t num_layers_of(layer_kind kind) const noexcept;
  /// Channels of the convolution before a gated delta rule: queries, keys and values.
  std::uint32_t delta_channels() const noexcept {
    return static_cast<std::uint32_t>(2 * delta.keys_size() + delta.values_size());
  }
  bool has_attention(std::uint32_t layer) const noexcept { return kind_of(layer) == layer_kind::attention; }
  bool is_rotated(std::uint32_t layer) const noexcept {
    return unrotated_layers.empty() || !unrotated_layers[layer];
  }
  bool is_local(std::uint32_t layer) const noexcept { return sliding_window != 0 && local_layers[layer]; }
  bool has_experts(std::uint32_t layer) const noexcept {
    return experts.routing.num_experts != 0 && layer < experts.layers.size() && experts.layers[layer];
  }
  /// Numbers of layers with and without experts.
  std::uint32_t num_expert_layers() const noexcept;
  std::uint32_t num_dense_layers() const noexcept { return num_layers - num_expert_layers(); }
  const rope_config& rope_of(std::uint32_t layer) const noexcept {
    return is_local(layer) ? local_rope : rope;
  }
};

/// Checks the range of every field and the relations between fields, so that sizes computed from a config
/// cannot overflow. The error names field and rule.
expected<void> validate(const model_config& config);

} // namespace paceline::model
