#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/fp8_weights.hpp"
#include "runtime/model/model_config.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

class partial_file;

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
};
inline constexpr std::size_t num_tensor_roles = 20;

std::string_view to_string(tensor_role role) noexcept;
/// True for roles that each layer has; the others occur once in a model.
bool is_layer_role(tensor_role role) noexcept;
/// True for roles with rows and columns; the others are vectors (norms and biases).
bool is_matrix_role(tensor_role role) noexcept;

/// One tensor as input of `weight_memory::pack`. A matrix's bytes are not necessarily aligned; a vector is
/// one row of F32, aligned for float.
struct weight_view {
  std::string_view name; ///< name in the file
  device::tensor_view tensor;
  /// For F8_E4M3: the bytes of `tensor` are codes only, and `f8_blocks` makes the tensor to be packed.
  const scale_grid* scales = nullptr;

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

/// The weights of one model: every tensor that its config implies, each with exactly the implied shape, and
/// no unknown tensor. Vectors are in memory; the bytes of matrices are in the file until `read`. Vectors are
/// converted to F32 if necessary, and norms of Hugging Face's gemma files get the 1 added that GGUF files
/// already contain. Moving the object keeps all views valid.
class weights_source {
 public:
  /// `tensors` are all tensors of a file, in any order, with vectors of any float type. `owner` keeps their
  /// bytes and names alive, and so do `files`, from which they are read if they are not in memory. Errors
  /// name `file`, tensor and rule.
  static expected<weights_source> make(const model_config& config, std::span<const weight_view> tensors,
                                       tensor_naming naming, std::shared_ptr<const void> owner,
                                       std::string_view file,
                                       std::vector<std::shared_ptr<const partial_file>> files = {});

  /// A tensor of the model. Roles that the config excludes give an empty view.
  const weight_view& at(tensor_role role) const;
  /// A tensor of layer `layer`. Roles that the config excludes give an empty view.
  const weight_view& at(tensor_role role, std::uint32_t layer) const;

  std::uint32_t num_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
  /// Reads bytes of a matrix from the file, unless they are in memory. Error: `invalid_file`, naming the
  /// file. Thread-safe for disjoint bytes.
  expected<void> read(std::span<const std::byte> bytes) const;
  /// Called when bytes of a tensor were copied and will not be read again soon. Thread-safe.
  void release(std::span<const std::byte> bytes) const noexcept;

  /// Bytes of all tensors as packed; a tied head counts once.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  using role_table = std::array<weight_view, num_tensor_roles>;

  friend class weights_builder;
  weights_source() = default;

  role_table model_;
  std::vector<role_table> layers_;
  std::vector<std::unique_ptr<float[]>> converted_; ///< vectors whose values differ from the file's
  std::shared_ptr<const void> owner_;
  std::vector<std::shared_ptr<const partial_file>> files_;
  std::uint64_t total_bytes_ = 0;
};

} // namespace paceline::model
