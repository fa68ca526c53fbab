#include "runtime/model/heads/files/layer_fields.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/mixture_config.hpp"
#include "runtime/model/loader/hugging_face/hf_config.hpp"
#include "runtime/model/loader/hugging_face/hf_rope.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

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

/// The class of the model whose module `layer` describes, if it is Qwen3.5's or Qwen3-Next's.
static std::optional<mtp_class_defaults> class_of(const json_node& layer) {
  return hf_mtp_defaults(layer["model_type"].string_or(""));
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
  const auto usual = class_of(layer);
  const auto size = [&](std::string_view key, std::uint32_t class_sizes::*of_class) {
    return usual ? layer[key].uint_or(usual->sizes.*of_class) : layer[key].uint();
  };
  sizes.hidden_size = size("hidden_size", &class_sizes::hidden_size);
  const bool has_dense = sizes.num_expert_layers() == 0;
  sizes.ffn_size =
      has_dense ? size("intermediate_size", &class_sizes::ffn_size) : layer["intermediate_size"].uint_or(0);
  sizes.num_heads = size("num_attention_heads", &class_sizes::num_heads);
  sizes.num_kv_heads = layer["num_key_value_heads"].uint_or(usual ? usual->num_kv_heads : sizes.num_heads);
  const bool is_qwen3 = layer["model_type"].string_or("") == "qwen3";
  if (layer["head_dim"] || is_qwen3 || usual)
    sizes.head_dim = layer["head_dim"].uint_or(usual ? usual->head_dim : 128);
  else if (sizes.num_heads != 0 && sizes.hidden_size % sizes.num_heads == 0)
    sizes.head_dim = sizes.hidden_size / sizes.num_heads;
  else
    layer["num_attention_heads"].refuse("must divide hidden_size where head_dim is missing");
  sizes.norm_epsilon = static_cast<float>(layer["rms_norm_eps"].setting_or(1e-6));
  sizes.context_length = layer["max_position_embeddings"].uint_or(usual ? usual->sizes.context_length : 2048);
  sizes.attention_scale = 1 / std::sqrt(static_cast<float>(sizes.head_dim));
}

namespace {

/// The object with rotary settings, if there is one. If a config has settings for each kind of layer,
/// published readers use those of the windowed layers for all layers.
json_node rope_settings(const json_node& layer) {
  const json_node parameters = layer["rope_parameters"];
  for (const char* const kind : {"sliding_attention", "full_attention"})
    if (const json_node own = parameters[kind]) return own;
  return find_hf_rope_settings(layer);
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
  const double usual = find_hf_rope_theta(layer, 1e4);
  sizes.rope = {};
  if (!settings || is_plain(settings))
    sizes.rope.theta = settings["rope_theta"].setting_or(usual);
  else
    sizes.rope = parse_hf_rope(settings, usual, find_hf_contexts(layer, settings, sizes.context_length));
  if (theta != 0) sizes.rope.theta = theta;
  sizes.context_length = hf_extended_context(sizes.rope.scaling, sizes.context_length);
  sizes.local_rope = sizes.rope;
  const json_node share = find_hf_rotated_share(layer, settings);
  const auto usual_class = class_of(layer);
  const double rotated = share.setting_or(usual_class ? usual_class->rotated_share : 1);
  if (!(rotated > 0 && rotated <= 1)) share.refuse("must be above 0 and at most 1");
  if (rotated < 1 && rotated * sizes.head_dim < 2) share.refuse("must leave a pair of head_dim to rotate");
  if (rotated < 1) sizes.rotary_dim = static_cast<std::uint32_t>(rotated * sizes.head_dim) / 2 * 2;
}

} // namespace paceline::model
