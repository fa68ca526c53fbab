#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/model/model_config.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::model {

/// Reads hyper-parameters from a Hugging Face config.json, which errors call `file`. Absent values have the
/// default of the transformers class of that model type. Both spellings of rotary settings are read:
/// rope_theta with rope_scaling, and the newer rope_parameters. Of a model that also reads images or sound,
/// the language model in "text_config" is read. Model types outside `architecture`, and heads other than the
/// language model's, are refused with an error that names them. Quantisation is read elsewhere
/// (runtime/model/loader/fp8_weights.hpp).
expected<model_config> read_hf_config(const boost::json::object& config, const std::string& file);

/// Sizes of the transformers class of a model type. A "text_config" contains only the values that differ from
/// them.
struct class_sizes {
  std::uint32_t vocab_size, context_length, hidden_size, num_layers, num_heads, ffn_size;
};

/// What a module for multi-token prediction has of its model's class, if the config does not state it.
struct module_class {
  class_sizes sizes;
  std::uint32_t num_kv_heads, head_dim;
};

/// That of a "model_type", also of the one that wraps the language model; nullopt: no such modules are known.
std::optional<module_class> hf_module_class(std::string_view model_type);

/// The context of a model whose config states `context_length`: configs with YaRN state the one of the
/// training before, which the factor extends.
std::uint32_t hf_extended_context(const rope_scaling& scaling, std::uint32_t context_length) noexcept;

/// The architecture of a "model_type"; nullopt: it is not supported.
std::optional<architecture> hf_architecture(std::string_view model_type) noexcept;

/// The object with the rotary settings of all layers: `rope_scaling`, which users add to a config to extend
/// its context, if it has members; else `rope_parameters`. transformers has the same precedence.
json_node hf_rope_settings(const json_node& fields);
/// The theta of a config, for settings that name none: beside `rope_scaling`, that of `rope_parameters`
/// counts.
double hf_rope_theta(const json_node& fields, double usual);

/// The share of each head's values that is rotated, as transformers finds it: that of `settings`, the rotary
/// settings that count, else that of the config; no value if the class's counts.
json_node hf_rotated_share(const json_node& fields, const json_node& settings);

/// The rotary settings in one object: rope_scaling, rope_parameters, or one kind of layer's part of the
/// latter.
rope_config read_hf_rope_settings(const json_node& settings, double default_theta,
                                  std::uint32_t context_length);

} // namespace paceline::model
