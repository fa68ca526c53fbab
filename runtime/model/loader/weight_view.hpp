#pragma once

#include "runtime/device/matrix.hpp"
#include "runtime/device/stored_block.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace paceline::model {

struct scale_grid;

/// The role of a tensor, independent of its name in a file. Matrices are [rows][cols] = [outputs][inputs];
/// the others have 1 row.
enum class tensor_role : std::uint8_t {
  // One for each model:
  token_embedding, ///< [vocab_size][hidden_size]
  output_norm,     ///< [hidden_size]
  output,          ///< [vocab_size][hidden_size]; the embedding itself where the head is tied
  // One for each layer:
  attention_norm,        ///< [hidden_size]
  q,                     ///< [q_size][hidden_size], rows as config.layout says
  k,                     ///< [kv_size][hidden_size], likewise
  v,                     ///< [kv_size][hidden_size]
  q_bias,                ///< [q_size], with config.qkv_bias
  k_bias,                ///< [kv_size], likewise
  v_bias,                ///< [kv_size], likewise
  q_norm,                ///< [head_dim], with config.qk_norm
  k_norm,                ///< [head_dim], likewise
  attention_output,      ///< [hidden_size][q_size]
  attention_output_bias, ///< [hidden_size], with config.attention_output_bias
  post_attention_norm,   ///< [hidden_size], with config.post_norms
  ffn_norm,              ///< [hidden_size]
  ffn_gate,              ///< [ffn_size][hidden_size]
  ffn_up,                ///< [ffn_size][hidden_size]
  ffn_down,              ///< [hidden_size][ffn_size]
  post_ffn_norm,         ///< [hidden_size], with config.post_norms
  // In place of ffn_gate, ffn_up and ffn_down in layers with experts:
  ffn_router,       ///< [num_experts][hidden_size], of a floating-point type
  ffn_gate_experts, ///< num_experts times [experts.ffn_size][hidden_size]
  ffn_up_experts,   ///< likewise
  ffn_down_experts, ///< num_experts times [hidden_size][experts.ffn_size]
};
inline constexpr std::size_t num_tensor_roles = 24;
inline constexpr std::size_t num_expert_roles = 3;

std::string_view to_string(tensor_role role) noexcept;
/// True for roles that each layer has; the others occur once in a model.
bool is_layer_role(tensor_role role) noexcept;
/// True for the roles of which each expert of a layer has one.
constexpr bool is_expert_role(tensor_role role) noexcept { return role >= tensor_role::ffn_gate_experts; }
/// True for roles with rows and columns; the others are vectors (norms and biases).
bool is_matrix_role(tensor_role role) noexcept;

/// One tensor as input of `weight_memory::pack`. A matrix's bytes are not necessarily aligned; a vector is
/// one row of F32, aligned for float.
struct weight_view {
  std::string_view name; ///< name in the file
  /// In the list of a file's tensors: all matrices of a tensor with three dimensions, one after another.
  device::tensor_view tensor;
  /// For F8_E4M3: the bytes of `tensor` are codes only, and `f8_blocks` makes the tensor to be packed.
  const scale_grid* scales = nullptr;
  std::uint64_t num_matrices = 1; ///< in `tensor`

  /// Number of bytes to be given to `weight_memory::pack`.
  std::uint64_t stored_bytes() const noexcept {
    using device::f8_block;
    if (scales == nullptr) return tensor.bytes.size();
    return tensor.bytes.size() / f8_block::num_values * (f8_block::codes_at + f8_block::num_values);
  }

  bool empty() const noexcept { return tensor.bytes.empty(); }
  /// The values of a vector.
  std::span<const float> floats() const noexcept {
    return {reinterpret_cast<const float*>(tensor.bytes.data()), tensor.num_cols};
  }
};

/// The names of tensors, and the convention of norms.
enum class tensor_naming : std::uint8_t {
  gguf,         ///< "blk.0.attn_q.weight"; norms of gemma hold the factor
  hugging_face, ///< "model.layers.0.self_attn.q_proj.weight"; norms of gemma hold the factor minus one
};

} // namespace paceline::model
