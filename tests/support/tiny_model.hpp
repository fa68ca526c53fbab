#pragma once

#include "runtime/device/tensor_type.hpp"
#include "runtime/model/model_config.hpp"
#include "tests/support/gguf_builder.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace paceline::test {

/// A model small enough to compute by hand and to corrupt byte by byte.
struct tiny_model {
  model::architecture arch = model::architecture::llama;
  /// For matrices; F32 if rows are not whole blocks of it.
  device::tensor_type type = device::tensor_type::f32;
  std::uint32_t num_layers = 2;
  std::uint32_t hidden_size = 32;
  std::uint32_t num_heads = 4;
  std::uint32_t num_kv_heads = 2;
  std::uint32_t head_dim = 8;
  std::uint32_t ffn_size = 64;
  std::uint32_t context_length = 64;
  std::uint32_t vocab_size = 288;    ///< at least 272, as the vocabulary needs; further entries are unused
  std::uint32_t sliding_window = 4;  ///< gemma3, olmo2, phi3
  std::uint32_t sliding_pattern = 2; ///< gemma3, olmo2: distance of the layers that see all positions
  std::uint32_t num_conv_taps = 3;   ///< lfm2, lfm2moe, qwen35
  std::uint32_t num_key_heads = 2;   ///< qwen35: of delta rules
  std::uint32_t num_value_heads = 4; ///< qwen35
  std::uint32_t delta_head_dim = 8;  ///< qwen35: of keys and of values
  /// qwen35 and its mixtures: a module for multi-token prediction behind the last layer.
  bool mtp_module = false;
  std::uint32_t num_experts = 8;      ///< qwen3moe, lfm2moe
  std::uint32_t num_used_experts = 3; ///< qwen3moe
  std::uint32_t expert_ffn_size = 32; ///< qwen3moe
  std::uint32_t shared_ffn_size = 64; ///< qwen35moe, qwen3next: of the expert that every row uses
  bool normalised_experts = true;     ///< qwen3moe
  std::int32_t dense_layer = 1;       ///< qwen3moe: the layer without experts; -1: none
  bool fused_experts = false;         ///< qwen3moe: gate and up of the experts in one tensor
  bool tied_embeddings = true;
  std::uint64_t seed = 1;
};

/// True if the layer has a short convolution in place of attention: in files of lfm2, every other one.
bool has_convolution(const tiny_model& options, std::uint32_t layer);

/// True if the layer has a gated delta rule in place of attention: in files of qwen35, every other one.
bool has_delta_rule(const tiny_model& options, std::uint32_t layer);

/// True for families whose GGUF files have the rows of Q and K in interleaved pairs.
bool is_permuted(model::architecture arch);

/// True if the layer has a mixture of experts.
bool has_experts(const tiny_model& options, std::uint32_t layer);

/// Metadata, a vocabulary (byte-level BPE; SPM with byte fallback for gemma3) and random weights.
gguf_builder make_tiny_gguf(const tiny_model& options);

/// Valid random bytes for `num_values` values of `type`, whole blocks, with values of about the size `scale`.
/// The same seed gives the same bytes on every machine.
std::vector<std::byte> random_tensor(device::tensor_type type, std::size_t num_values, float scale,
                                     std::mt19937_64& random);

} // namespace paceline::test
