#include "runtime/model/heads/layer_fields.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/expert_config.hpp"
#include "runtime/model/loader/family_traits.hpp"
#include "runtime/model/loader/hf_config.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace paceline::model {

void read_tap_ids(const json_node& ids, id_convention convention, std::uint32_t num_target_layers,
                  std::vector<layer_index>& taps) {
  ids.require_array();
  const std::uint32_t offset = convention == id_convention::input_of ? 1 : 0;
  const std::uint64_t limit = std::uint64_t{num_target_layers} + offset;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = ids[i].if_uint_below(limit);
    if (!id || *id < offset)
      return ids[i].refuse("must be " + std::to_string(offset) + " to " + std::to_string(limit - 1) +
                           ": the target has " + std::to_string(num_target_layers) + " layers");
    taps.push_back(layer_index{*id - offset});
  }
}

expected<std::vector<layer_index>> read_gguf_taps(const gguf_metadata& metadata, const std::string& key,
                                                  std::uint32_t num_target_layers) {
  const auto ids = metadata.find_numbers(key);
  if (!ids) return ids.error();
  if (!*ids || (*ids)->size() == 0 || !(*ids)->is_integer())
    return metadata.key_error(key, "must name layers of the target");
  std::vector<layer_index> taps;
  for (std::size_t i = 0; i < (*ids)->size(); ++i) {
    const auto id = (*ids)->as_uint(i);
    if (!id || *id < 1 || *id > num_target_layers)
      return metadata.key_error(key, "must hold 1 to " + std::to_string(num_target_layers) +
                                         ": the target has " + std::to_string(num_target_layers) + " layers");
    taps.push_back(layer_index{static_cast<std::uint32_t>(*id - 1)});
  }
  return taps;
}

std::uint32_t num_gguf_drafted(const gguf_file& file, std::uint32_t vocab_size) {
  const gguf_tensor* const map = file.find_tensor("d2t");
  if (map == nullptr) return vocab_size;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(map->shape[0], UINT32_MAX));
}

expected<void> check_gguf_tokens(const gguf_file& file, std::uint32_t num_drafted, std::uint32_t vocab_size,
                                 const std::optional<head_target>& target) {
  if (num_drafted > vocab_size)
    return error(errc::invalid_file, file.name() + ": tensor 'd2t' has " + std::to_string(num_drafted) +
                                         " tokens, the file has " + std::to_string(vocab_size));
  if (target && vocab_size > target->vocab_size)
    return file.metadata().key_error("tokenizer.ggml.tokens", "has " + std::to_string(vocab_size) +
                                                                  " tokens, the target has " +
                                                                  std::to_string(target->vocab_size));
  return {};
}

/// True for the classes of Qwen3.5 and Qwen3-Next. Their modules have the defaults of their models.
static bool has_delta_rules(const std::string& type) {
  return type.starts_with("qwen3_5") || type == "qwen3_next";
}

void read_layer_experts(const json_node& layer, model_config& sizes) {
  const std::string type = layer["model_type"].string_or("");
  const auto arch = hf_architecture(type);
  if (!arch || !traits_of(*arch).has_mtp_module || !traits_of(*arch).has_experts)
    return layer["model_type"].refuse(
        "is " + quote(type) + "; modules with experts are supported of " +
            names_of_families({&family_traits::has_mtp_module, &family_traits::has_experts}),
        errc::unsupported);
  sizes.arch = *arch;
  read_hf_mixture(layer, sizes);
  sizes.experts.layers.assign(sizes.num_layers, true);
  if (sizes.experts.routing.num_experts == 0) layer["num_experts"].refuse("is 0, and the file has experts");
}

void read_layer_sizes(const json_node& layer, model_config& sizes) {
  if (layer["hidden_act"].string_or("silu") != "silu")
    layer["hidden_act"].refuse("must be 'silu'", errc::unsupported);
  sizes.hidden_size = layer["hidden_size"].uint();
  const bool has_dense = sizes.num_expert_layers() == 0;
  sizes.ffn_size = has_dense ? layer["intermediate_size"].uint() : layer["intermediate_size"].uint_or(0);
  sizes.num_heads = layer["num_attention_heads"].uint();
  const std::string type = layer["model_type"].string_or("");
  sizes.num_kv_heads = layer["num_key_value_heads"].uint_or(type == "qwen3_5_text"  ? 4
                                                            : has_delta_rules(type) ? 2
                                                                                    : sizes.num_heads);
  if (layer["head_dim"] || type == "qwen3" || has_delta_rules(type))
    sizes.head_dim = layer["head_dim"].uint_or(type == "qwen3" ? 128 : 256);
  else if (sizes.num_heads != 0 && sizes.hidden_size % sizes.num_heads == 0)
    sizes.head_dim = sizes.hidden_size / sizes.num_heads;
  else
    layer["num_attention_heads"].refuse("must divide hidden_size where head_dim is missing");
  sizes.norm_epsilon = static_cast<float>(layer["rms_norm_eps"].setting_or(1e-6));
  sizes.context_length = layer["max_position_embeddings"].uint_or(2048);
  sizes.attention_scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
}

namespace {

/// The object with rotary settings, if there is one. If a config has settings for each kind of layer,
/// published readers use those of the windowed layers for all layers.
json_node rope_settings(const json_node& layer) {
  const json_node parameters = layer["rope_parameters"];
  for (const char* const kind : {"sliding_attention", "full_attention"})
    if (const json_node own = parameters[kind]) return own;
  return hf_rope_settings(layer);
}

/// True if positions below max_position_embeddings rotate as they would without scaling. No head drafts at
/// higher positions. `dynamic` scales only above that limit, and the sections of `mrope` have equal positions
/// in a text.
bool is_plain(const json_node& settings) {
  const std::string kind = settings["rope_type"].string_or(settings["type"].string_or("default"));
  return kind == "dynamic" || kind == "mrope";
}

} // namespace

void read_layer_rope(const json_node& layer, double theta, model_config& sizes) {
  const json_node settings = rope_settings(layer);
  const double usual = hf_rope_theta(layer, 1e4);
  sizes.rope = {};
  if (!settings || is_plain(settings))
    sizes.rope.theta = settings["rope_theta"].setting_or(usual);
  else
    sizes.rope = read_hf_rope_settings(settings, usual, sizes.context_length);
  if (theta != 0) sizes.rope.theta = theta;
  sizes.local_rope = sizes.rope;
  const double usual_share = has_delta_rules(layer["model_type"].string_or("")) ? 0.25 : 1;
  const double share_of_settings = settings["partial_rotary_factor"].setting_or(
      layer["rope_parameters"]["partial_rotary_factor"].setting_or(usual_share));
  const double rotated = layer["partial_rotary_factor"].setting_or(share_of_settings);
  if (!(rotated > 0 && rotated <= 1)) layer["partial_rotary_factor"].refuse("must be above 0 and at most 1");
  if (rotated < 1 && rotated * sizes.head_dim < 2)
    layer["partial_rotary_factor"].refuse("must leave a pair of head_dim to rotate");
  if (rotated < 1) sizes.rotary_dim = static_cast<std::uint32_t>(rotated * sizes.head_dim) / 2 * 2;
}

} // namespace paceline::model
