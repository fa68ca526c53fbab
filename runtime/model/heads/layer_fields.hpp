#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/model/heads/head_target.hpp"
#include "runtime/model/loader/gguf_file.hpp"
#include "runtime/model/loader/gguf_metadata.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// How the ids of layers in a config are counted.
enum class id_convention : std::uint8_t {
  input_of,  ///< the layer that reads the tapped vector: id - 1 has written it
  output_of, ///< the layer that has written it
};

/// More layers than any target has: the limit of ids where the target is not known.
inline constexpr std::uint32_t most_target_layers = 4096;

/// Appends the target's layers that the list `ids` names. A vector before the first layer is not tapped.
void read_tap_ids(const json_node& ids, id_convention convention, std::uint32_t num_target_layers,
                  std::vector<layer_index>& taps);

/// The same of array `key` of a GGUF file, which names the layers that read a vector.
expected<std::vector<layer_index>> read_gguf_taps(const gguf_metadata& metadata, const std::string& key,
                                                  std::uint32_t num_target_layers);

/// Tokens that the head in a GGUF file with `vocab_size` tokens drafts: as many as its map has, else all.
std::uint32_t num_gguf_drafted(const gguf_file& file, std::uint32_t vocab_size);
/// An error if it drafts more tokens than the file has, or the file has more than the target.
expected<void> check_gguf_tokens(const gguf_file& file, std::uint32_t num_drafted, std::uint32_t vocab_size,
                                 const std::optional<head_target>& target);

/// Reads the sizes of a head's decoder layers from `layer`, the fields of a Llama or Qwen3 config:
/// hidden_size, ffn_size, heads, norm_epsilon, context_length (2048 if absent) and attention_scale.
void read_layer_sizes(const json_node& layer, model_config& sizes);

/// Reads the head's rotary positions, once `sizes` has head_dim and context_length. `theta`: instead of the
/// config's; 0: none.
void read_layer_rope(const json_node& layer, double theta, model_config& sizes);

} // namespace paceline::model
