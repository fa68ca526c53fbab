#pragma once

#include "runtime/base/json_node.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <optional>

namespace paceline::model {

// The rotation in a config.json. Two spellings are read: rope_theta with rope_scaling, and the newer
// rope_parameters, which may have a part for each kind of layer. The json_node arguments keep the first
// error. "The class" is the model type's class in transformers. LongRoPE: longrope.hpp.

/// Sets `rope` and `local_rope` of a config that has `arch` and `context_length`. With YaRN it also extends
/// `context_length`. `default_theta`: theta of the class.
void read_hf_rotation(const json_node& fields, double default_theta, model_config& config);

/// Sets `rotary_dim` of a config that has `head_dim` and rotation, if only the first values of each head are
/// rotated. `usual_share`: the class's share of rotated values. nullopt: the class rotates whole heads and
/// ignores the share that the config states. Exception: a share other than 1 together with RoPE scaling is
/// refused, because transformers cannot run that combination.
void read_hf_rotary_dim(const json_node& fields, std::optional<double> usual_share, model_config& config);

/// The contexts of a config, in tokens.
struct hf_contexts {
  std::uint32_t stated = 0;   ///< max_position_embeddings
  std::uint32_t original = 0; ///< of the training before the context was extended
};

/// The contexts of a config whose layers all have the rotary settings `settings`. As in transformers, the
/// original context is the one that the config states, else the one that `settings` state, else
/// `context_length`.
hf_contexts find_hf_contexts(const json_node& fields, const json_node& settings,
                             std::uint32_t context_length);

/// The object with the rotary settings of all layers: `rope_scaling` if it has members, otherwise
/// `rope_parameters`. transformers has the same precedence. Users add `rope_scaling` to extend the context.
json_node find_hf_rope_settings(const json_node& fields);
/// The theta of a config, for rotary settings that state none: `rope_theta`, else `rope_theta` in
/// `rope_parameters`, else `usual`.
double find_hf_rope_theta(const json_node& fields, double usual);
/// The share of each head's values that is rotated, as transformers finds it: the one in `settings` (from
/// `find_hf_rope_settings`), else the one in the config. If neither states it, the node is absent and the
/// class's share holds.
json_node find_hf_rotated_share(const json_node& fields, const json_node& settings);

/// Parses an object with rotary settings: rope_scaling, rope_parameters, or the part of rope_parameters for
/// one kind of layer.
rope_config parse_hf_rope(const json_node& settings, double default_theta, const hf_contexts& contexts);

/// The context length, in tokens, of a model whose config states `context_length`. With YaRN it is the
/// original context times the factor, but at least `context_length`. Otherwise it is `context_length`.
std::uint32_t hf_extended_context(const rope_scaling& scaling, std::uint32_t context_length) noexcept;

} // namespace paceline::model
