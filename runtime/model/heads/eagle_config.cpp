#include "runtime/model/heads/eagle_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/loader/hf_config.hpp"
#include "runtime/model/loader/quote.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

/// How the ids of layers in a config are counted.
enum class id_convention : std::uint8_t {
  input_of,  ///< the layer that reads the tapped vector: id - 1 has written it
  output_of, ///< the layer that has written it
};

/// More than any target has.
constexpr std::uint64_t most_layers = 4096;

/// "eagle_aux_hidden_state_layer_ids": the vector that each named layer reads, or has written. A vector
/// before the first layer is not tapped.
void read_ids(const json_node& ids, id_convention convention, const std::optional<head_target>& target,
              std::vector<layer_index>& taps) {
  ids.require_array();
  const std::uint32_t offset = convention == id_convention::input_of ? 1 : 0;
  const std::uint64_t limit = (target ? std::uint64_t{target->num_layers} : most_layers) + offset;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = ids[i].if_uint_below(limit);
    if (!id || *id < offset)
      return ids[i].refuse("must be " + std::to_string(offset) + " to " + std::to_string(limit - 1) +
                           ": the target has " + std::to_string(limit - offset) + " layers");
    taps.push_back(layer_index{*id - offset});
  }
}

/// Inputs of layers 2, N/2 and N - 3: what EAGLE-3 was published with.
std::vector<layer_index> default_taps(std::uint32_t num_layers) {
  if (num_layers < 5) return {};
  return {layer_index{1}, layer_index{num_layers / 2 - 1}, layer_index{num_layers - 4}};
}

void read_taps(const json_node& fields, eagle_config& config, const std::optional<head_target>& target) {
  const json_node nested = fields["eagle_config"]["eagle_aux_hidden_state_layer_ids"];
  if (config.version == eagle_version::eagle)
    config.taps = target ? std::vector{layer_index{target->num_layers}} : std::vector<layer_index>{};
  else if (const json_node ids = fields["target_layer_ids"])
    read_ids(ids, id_convention::output_of, target, config.taps);
  else if (nested)
    read_ids(nested, id_convention::output_of, target, config.taps);
  else if (const json_node aux = fields["eagle_aux_hidden_state_layer_ids"])
    read_ids(aux, id_convention::input_of, target, config.taps);
  else if (target)
    config.taps = default_taps(target->num_layers);
  if (target && config.taps.empty())
    fields["eagle_aux_hidden_state_layer_ids"].refuse("must name layers of the target, which has " +
                                                      std::to_string(target->num_layers));
}

void refuse_unsupported(const json_node& root, const json_node& layer) {
  if (layer["hidden_act"].string_or("silu") != "silu")
    layer["hidden_act"].refuse("must be 'silu'", errc::unsupported);
  if (!root["eagle_config"]["use_aux_hidden_state"].flag_or(true))
    root["eagle_config"]["use_aux_hidden_state"].refuse("must be true", errc::unsupported);
  if (root["eagle_config"]["parallel_draft_step"].uint_or(1) > 1)
    root["eagle_config"]["parallel_draft_step"].refuse("must be 1: parallel drafting is not supported",
                                                       errc::unsupported);
}

void read_sizes(const json_node& root, const json_node& layer, eagle_config& config) {
  model_config& sizes = config.layer;
  sizes.hidden_size = layer["hidden_size"].uint();
  sizes.ffn_size = layer["intermediate_size"].uint();
  sizes.num_heads = layer["num_attention_heads"].uint();
  sizes.num_kv_heads = layer["num_key_value_heads"].uint_or(sizes.num_heads);
  const bool is_qwen3 = layer["model_type"].string_or("") == "qwen3";
  if (layer["head_dim"] || is_qwen3)
    sizes.head_dim = layer["head_dim"].uint_or(128);
  else if (sizes.num_heads != 0 && sizes.hidden_size % sizes.num_heads == 0)
    sizes.head_dim = sizes.hidden_size / sizes.num_heads;
  else
    layer["num_attention_heads"].refuse("must divide hidden_size where head_dim is missing");
  sizes.norm_epsilon = static_cast<float>(layer["rms_norm_eps"].setting_or(1e-6));
  sizes.context_length = layer["max_position_embeddings"].uint_or(2048);
  config.vocab_size = layer["vocab_size"].uint();
  sizes.vocab_size = config.version == eagle_version::eagle3
                         ? root["draft_vocab_size"].uint_or(config.vocab_size)
                         : config.vocab_size;
  config.target_hidden_size = root["target_hidden_size"].uint_or(sizes.hidden_size);
  sizes.attention_scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
}

void check_sizes(const json_node& root, const eagle_config& config) {
  if (config.version == eagle_version::eagle && config.target_hidden_size != config.layer.hidden_size)
    root["target_hidden_size"].refuse("is " + std::to_string(config.target_hidden_size) +
                                      ", hidden_size is " + std::to_string(config.layer.hidden_size));
  if (config.layer.vocab_size > config.vocab_size)
    root["draft_vocab_size"].refuse("is " + std::to_string(config.layer.vocab_size) + ", vocab_size is " +
                                    std::to_string(config.vocab_size));
}

void check_target(const json_node& root, const json_node& layer, const eagle_config& config,
                  const head_target& target) {
  if (config.target_hidden_size != target.hidden_size)
    (root["target_hidden_size"] ? root["target_hidden_size"] : layer["hidden_size"])
        .refuse("is " + std::to_string(config.target_hidden_size) + ", the target's hidden size is " +
                std::to_string(target.hidden_size));
  if (config.vocab_size > target.vocab_size)
    layer["vocab_size"].refuse("is " + std::to_string(config.vocab_size) + ", the target's is " +
                               std::to_string(target.vocab_size));
}

} // namespace

expected<eagle_config> read_eagle_config(const boost::json::object& object, const std::string& file,
                                         eagle_version version, std::uint32_t num_layers,
                                         const std::optional<head_target>& target,
                                         const head_overrides& overrides) {
  std::optional<error> failure;
  const json_node root(object, file, failure, json_node::naming::key);
  const bool is_multimodal = root["text_config"] && !root["hidden_size"];
  const json_node nested = root[is_multimodal ? "text_config" : "transformer_layer_config"];
  if (nested) nested.require_object();
  const json_node& layer = nested ? nested : root;
  eagle_config config;
  config.version = version;
  config.name = version == eagle_version::eagle3 ? "eagle3" : "eagle";
  refuse_unsupported(root, layer);
  read_sizes(root, layer, config);
  config.layer.num_layers = num_layers;
  config.layer.local_layers.assign(num_layers, false);
  config.layer.rope = read_hf_rope(layer, 1e4, config.layer.context_length);
  if (overrides.rope_theta != 0) config.layer.rope.theta = overrides.rope_theta;
  config.layer.local_rope = config.layer.rope;
  config.norm_before_residual = root["norm_before_residual"].flag_or(false);
  config.norm_output = root["norm_output"].flag_or(false);
  config.has_tap_norms = root["fc_norm"].flag_or(false);
  config.has_input_norm = root["norm_before_fc"].flag_or(false);
  const double rotated = layer["partial_rotary_factor"].setting_or(
      layer["rope_parameters"]["partial_rotary_factor"].setting_or(1));
  if (!(rotated > 0 && rotated <= 1)) layer["partial_rotary_factor"].refuse("must be above 0 and at most 1");
  if (rotated < 1 && rotated * config.layer.head_dim < 2)
    layer["partial_rotary_factor"].refuse("must leave a pair of head_dim to rotate");
  if (rotated < 1)
    config.layer.rotary_dim = static_cast<std::uint32_t>(rotated * config.layer.head_dim) / 2 * 2;
  if (overrides.taps.empty())
    read_taps(root, config, target);
  else
    config.taps = overrides.taps;
  if (failure) return *failure;
  check_sizes(root, config);
  if (target) check_target(root, layer, config, *target);
  if (failure) return *failure;
  if (auto ok = validate(config.layer); !ok) return std::move(ok).error().within(file);
  if (config.layer.head_dim > device::max_head_dim)
    layer["head_dim"].refuse("is above " + std::to_string(device::max_head_dim), errc::unsupported);
  if (failure) return *failure;
  return config;
}

} // namespace paceline::model
