#pragma once

#include "runtime/model/model_config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace paceline::model {

/// The role of a tensor, independent of its name in a file. A new role also needs a row in the table of
/// tensor_role.cpp, and its shape there. Matrices are [rows][cols] = [outputs][inputs]. Taps of a convolution
/// have a row for each channel. Vectors have 1 row.
enum class tensor_role : std::uint8_t {
  // One for each model:
  token_embedding, ///< [vocab_size][hidden_size]
  output_norm,     ///< [hidden_size]
  output,          ///< [vocab_size][hidden_size]; with a tied head, the embedding itself
  // One for each layer:
  attention_norm,        ///< [hidden_size], with config.pre_norms
  q,                     ///< [q_size][hidden_size], rows as config.layout says; with config.attention_gate
                         ///< [2 * q_size][hidden_size]: for each head its rows, then the rows of its gate
  k,                     ///< [kv_size][hidden_size], rows as config.layout says
  v,                     ///< [kv_size][hidden_size]
  q_bias,                ///< [q_size], with config.qkv_bias
  k_bias,                ///< [kv_size], likewise
  v_bias,                ///< [kv_size], likewise
  q_norm,                ///< [head_dim], with config.qk_norm; with config.qk_norm_of_rows [q_size]
  k_norm,                ///< [head_dim], likewise; with config.qk_norm_of_rows [kv_size]
  attention_output,      ///< [hidden_size][q_size]
  attention_output_bias, ///< [hidden_size], with config.attention_output_bias
  post_attention_norm,   ///< [hidden_size], with config.post_norms
  ffn_norm,              ///< [hidden_size], with config.pre_norms
  ffn_gate,              ///< [ffn_size][hidden_size]
  ffn_up,                ///< [ffn_size][hidden_size]
  ffn_down,              ///< [hidden_size][ffn_size]
  post_ffn_norm,         ///< [hidden_size], with config.post_norms
  // In place of q, k, v and attention_output in layers with a short convolution:
  conv_in,       ///< [3 * hidden_size][hidden_size]
  conv_in_bias,  ///< [3 * hidden_size], with config.conv.bias
  conv_taps,     ///< [hidden_size][num_taps]; `weights_source` transposes them
  conv_bias,     ///< [hidden_size], with config.conv.bias
  conv_out,      ///< [hidden_size][hidden_size]
  conv_out_bias, ///< [hidden_size], with config.conv.bias
  // In place of q, k, v and attention_output in layers with a gated delta rule:
  delta_qkv,     ///< [delta_channels][hidden_size]: queries, keys, values; with config.packing.fuses_gate
                 ///< [delta_channels + delta.values_size][hidden_size], including the rows of delta_gate
  delta_gate,    ///< [delta.values_size][hidden_size]
  delta_beta,    ///< [delta.num_values][hidden_size]; with config.packing.fuses_beta twice as many rows,
                 ///< including the rows of delta_alpha
  delta_alpha,   ///< [delta.num_values][hidden_size]
  delta_taps,    ///< [delta_channels][num_taps]; `weights_source` transposes them
  delta_dt_bias, ///< [delta.num_values]
  delta_decay,   ///< [delta.num_values]; Hugging Face's files have log(-value)
  delta_norm,    ///< [delta.value_dim]
  delta_out,     ///< [hidden_size][delta.values_size]
  // In place of ffn_gate, ffn_up and ffn_down in layers with experts:
  ffn_router,         ///< [num_experts][hidden_size], of a floating-point type
  ffn_shared_scale,   ///< [1][hidden_size]: the gate of the shared expert, with experts.shared_ffn_size
  ffn_gate_shared,    ///< [experts.shared_ffn_size][hidden_size]
  ffn_up_shared,      ///< likewise
  ffn_down_shared,    ///< [hidden_size][experts.shared_ffn_size]
  ffn_selection_bias, ///< [num_experts], with config.experts.selection_bias
  ffn_gate_experts,   ///< num_experts times [experts.ffn_size][hidden_size]
  ffn_up_experts,     ///< likewise
  ffn_down_experts,   ///< num_experts times [hidden_size][experts.ffn_size]
};
inline constexpr std::size_t num_tensor_roles = static_cast<std::size_t>(tensor_role::ffn_down_experts) + 1;
inline constexpr std::size_t num_expert_roles = 3;

std::string_view to_string(tensor_role role) noexcept;
/// True for roles of layers; the other roles occur once in a model.
bool is_layer_role(tensor_role role) noexcept;
/// True for the roles of an expert's matrices.
constexpr bool is_expert_role(tensor_role role) noexcept { return role >= tensor_role::ffn_gate_experts; }
/// Index of a role of experts among the roles of experts: 0 to num_expert_roles - 1.
constexpr std::size_t expert_index(tensor_role role) noexcept {
  return static_cast<std::size_t>(role) - static_cast<std::size_t>(tensor_role::ffn_gate_experts);
}
/// True for weights that a device packs. The others are F32 on the host: norms, biases, decays and taps.
bool is_matrix_role(tensor_role role) noexcept;
/// True for the taps of a convolution.
bool is_taps_role(tensor_role role) noexcept;
/// True for norms of which some files store the factors minus one (`family_traits::norms_less_one`).
bool is_norm_role(tensor_role role) noexcept;

struct tensor_shape {
  std::uint64_t rows = 0; ///< 0: the config excludes the role
  std::uint64_t cols = 0;
};

/// The shape of a role's tensor; for a role of experts, the shape of one expert's matrix. `layer` is only
/// used for roles of layers.
tensor_shape shape_of(const model_config& config, tensor_role role, std::uint32_t layer) noexcept;

/// "[8][32][32]".
std::string shape_text(std::span<const std::uint64_t> sizes);

/// The names of tensors, and the convention of norms.
enum class tensor_naming : std::uint8_t {
  gguf,         ///< "blk.0.attn_q.weight"; norms hold the factor
  hugging_face, ///< "model.layers.0.self_attn.q_proj.weight"; some families' norms hold the factor minus one
};

/// The name of a role's tensor; for roles of layers, the part after `layer_prefix` and the layer's number.
/// For a role of experts, the name of a tensor with the matrices of all experts.
std::string_view tensor_name(tensor_role role, tensor_naming naming, const model_config& config) noexcept;
/// Translates an alias. `name` is how another converter's GGUF file calls a tensor, without the prefix of a
/// layer; the result is how `tensor_name` calls it. Names that are no such aliases are returned unchanged.
std::string_view usual_gguf_name(std::string_view name, architecture arch) noexcept;
/// Removes "N." from the front of a name, and returns N. If there is no such number or it has a leading zero,
/// it returns nullopt, and the name is unchanged.
std::optional<std::uint32_t> take_number(std::string_view& name) noexcept;
/// "blk." or "model.layers.".
std::string_view layer_prefix(tensor_naming naming) noexcept;

} // namespace paceline::model
