#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/model/heads/head_target.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// How the ids of layers in a config are counted.
enum class id_convention : std::uint8_t {
  input_of,  ///< the id names the layer that reads the tapped vector, which layer id - 1 has written
  output_of, ///< the id names the layer that has written the tapped vector
};

/// Appends to `taps`, for each of `ids`, the layer whose output the id selects. An id that selects the input
/// of the first layer is an error, because this input cannot be tapped. `ids` keeps the first error.
void read_tap_ids(const json_node& ids, id_convention convention, std::uint32_t num_target_layers,
                  std::vector<layer_index>& taps);

/// The same for array `key` of a GGUF file, whose ids have the convention `input_of`.
expected<std::vector<layer_index>> read_gguf_taps(const gguf_metadata& metadata, const std::string& key,
                                                  std::uint32_t num_target_layers);

/// Size of the draft vocabulary of a head in a GGUF file: the length of tensor "d2t", or `vocab_size` if the
/// file has no such tensor.
std::uint32_t num_gguf_drafted(const gguf_file& file, std::uint32_t vocab_size);
/// Error if `num_drafted` exceeds the file's `vocab_size`, or if `vocab_size` exceeds the target's.
expected<void> check_gguf_tokens(const gguf_file& file, std::uint32_t num_drafted, std::uint32_t vocab_size,
                                 const std::optional<head_target>& target);

/// Sets the experts of all layers of `sizes` from `layer`, the config of a model whose MTP module has a
/// mixture of experts. `sizes.num_layers` must be set.
void read_layer_experts(const json_node& layer, model_config& sizes);

/// Sets hidden_size, ffn_size, heads, norm_epsilon, context_length and attention_scale from `layer`, the
/// Llama or Qwen3 config of a head's decoder layers. An absent context length is 2048. With experts, an
/// absent ffn_size is 0. In a config of Qwen3.5 or Qwen3-Next, absent sizes have the defaults of the
/// transformers class.
void read_layer_sizes(const json_node& layer, model_config& sizes);

/// Reads the head's rotary settings. `sizes` must already have head_dim and context_length; YaRN extends the
/// context length. `theta` replaces the config's theta unless it is 0.
void read_layer_rope(const json_node& layer, double theta, model_config& sizes);

} // namespace paceline::model
