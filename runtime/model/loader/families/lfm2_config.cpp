#include "runtime/model/loader/families/lfm2_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/families/layer_types.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <cmath>
#include <string>

namespace paceline::model {
namespace {

/// The feed-forward size that `Lfm2MLP` computes from the config's size.
std::uint32_t adjusted_ffn_size(const json_node& fields, std::uint32_t size) {
  if (!fields["block_auto_adjust_ff_dim"].flag_or(true)) return size;
  double adjusted = std::floor(2.0 * size / 3.0);
  if (fields["block_ffn_dim_multiplier"].is_null()) return static_cast<std::uint32_t>(adjusted);
  adjusted = std::floor(fields["block_ffn_dim_multiplier"].setting_or(1) * adjusted);
  const auto multiple = fields["block_multiple_of"].uint_or(256);
  if (multiple == 0) return fields["block_multiple_of"].refuse("must be at least 1"), 0;
  adjusted = multiple * std::ceil(adjusted / multiple);
  if (!(adjusted >= 1 && adjusted <= 1U << 22))
    return fields["block_ffn_dim_multiplier"].refuse("makes the feed-forward size " +
                                                     std::to_string(adjusted)),
           0;
  return static_cast<std::uint32_t>(adjusted);
}

/// "full_attn_idxs" lists the layers with attention; without it all have attention.
void read_attention_layers(const json_node& numbers, model_config& config) {
  config.layer_kinds.assign(config.num_layers, numbers ? layer_kind::short_conv : layer_kind::attention);
  if (!numbers) return;
  numbers.require_array();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint32_t layer = numbers[i].uint();
    if (layer >= config.num_layers) return numbers.refuse("must hold numbers of layers");
    config.layer_kinds[layer] = layer_kind::attention;
  }
}

} // namespace

void read_gguf_lfm2(const gguf_file&, gguf_keys& keys, model_config& config) {
  config.conv.num_taps = keys.uint("shortconv.l_cache");
  if (keys.uint_or("attention.sliding_window", 0) != 0)
    keys.refuse("attention.sliding_window", "must be 0: windows are not supported in this architecture",
                errc::unsupported);
  for (const std::uint64_t num : keys.per_layer("attention.head_count_kv", config.num_layers))
    config.layer_kinds.push_back(num == 0 ? layer_kind::short_conv : layer_kind::attention);
}

void read_hf_lfm2(const json_node& fields, model_config& config) {
  config.conv.num_taps = fields["conv_L_cache"].uint_or(3);
  config.conv.bias = fields["conv_bias"].flag_or(false);
  config.norm_epsilon = static_cast<float>(fields["norm_eps"].setting_or(1e-5));
  config.tied_embeddings = fields["tie_embedding"].flag_or(fields["tie_word_embeddings"].flag_or(true));
  if (const json_node types = fields["layer_types"])
    read_layer_kinds(types, "conv", layer_kind::short_conv, config);
  else
    read_attention_layers(fields["full_attn_idxs"], config);
  if (config.arch == architecture::lfm2moe) return; // its class takes the size as it is
  config.ffn_size = adjusted_ffn_size(fields, fields["block_ff_dim"].uint_or(config.ffn_size));
}

} // namespace paceline::model
