#pragma once

#include "runtime/base/json_node.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <optional>

namespace paceline::model {

// The rotation in a config.json. Two spellings are read: rope_theta with rope_scaling, and the newer
// rope_parameters, which may have a part for each kind of layer. Errors are kept by the reader. LongRoPE:
// longrope.hpp.

/// Sets the rotation of both kinds of layers in a config that has `arch` and `context_length`. YaRN extends
/// the latter. `default_theta`: that of the class.
void read_hf_rotation(const json_node& fields, double default_theta, model_config& config);

/// Sets `rotary_dim` of a config that has `head_dim` and rotation, if only the first values of each head are
/// rotated. `usual_share`: the class's share of rotated values; nullopt: the class rotates whole heads,
/// whatever the config states, and refuses another share only where transformers could not compute it.
void read_hf_rotary_dim(const json_node& fields, std::optional<double> usual_share, model_config& config);

/// The contexts of a config, in tokens.
struct hf_contexts {
  std::uint32_t stated = 0;   ///< max_position_embeddings
  std::uint32_t original = 0; ///< of the training before the context was extended
};

/// Of a config whose layers all have the rotary settings `settings`: its own original context counts, then
/// that of the settings, then the stated one, as in transformers.
hf_contexts find_hf_contexts(const json_node& fields, const json_node& settings,
                             std::uint32_t context_length);

/// The object with the rotary settings of all layers: `rope_scaling`, which users add to a config to extend
/// its context, if it has members; else `rope_parameters`. transformers has the same precedence.
json_node find_hf_rope_settings(const json_node& fields);
/// The theta of a config, for settings that name none: beside `rope_scaling`, that of `rope_parameters`
/// counts.
double find_hf_rope_theta(const json_node& fields, double usual);
/// The share of each head's values that is rotated, as transformers finds it: that of `settings`, the rotary
/// settings that count, else that of the config; no value if the class's counts.
json_node find_hf_rotated_share(const json_node& fields, const json_node& settings);

/// Parses an object with rotary settings: rope_scaling, rope_parameters, or one kind of layer's part of the
/// latter.
rope_config parse_hf_rope(const json_node& settings, double default_theta, const hf_contexts& contexts);

/// The context of a model whose config states `context_length`: configs with YaRN state the one of the
/// training before, which the factor extends.
std::uint32_t hf_extended_context(const rope_scaling& scaling, std::uint32_t context_length) noexcept;

} // namespace paceline::model
