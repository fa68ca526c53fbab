#include "runtime/model/loader/qwen35_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/gguf_keys.hpp"
#include "runtime/model/loader/layer_types.hpp"

#include <string>
#include <vector>

namespace paceline::model {
namespace {

constexpr std::uint32_t default_interval = 4; ///< one layer in so many has attention

layer_kind kind_at(std::uint32_t layer, std::uint32_t interval) noexcept {
  return (layer + 1) % interval == 0 ? layer_kind::attention : layer_kind::gated_delta;
}

/// The modules follow the layers, and the file counts them as layers.
void take_mtp_modules(gguf_keys& keys, model_config& config) {
  config.num_mtp_modules = keys.uint_or("nextn_predict_layers", 0);
  if (config.num_mtp_modules >= config.num_layers)
    return keys.refuse("nextn_predict_layers", "must be below block_count");
  config.num_layers -= config.num_mtp_modules;
}

} // namespace

void read_gguf_qwen35(gguf_keys& keys, model_config& config) {
  config.attention_gate = true;
  config.conv.num_taps = keys.uint("ssm.conv_kernel");
  device::delta_heads& heads = config.delta;
  heads.num_keys = keys.uint("ssm.group_count");
  heads.num_values = keys.uint("ssm.time_step_rank");
  heads.key_dim = keys.uint("ssm.state_size");
  const bool is_next = config.arch == architecture::qwen3next;
  heads.tiled = !is_next; // the order that the converter writes
  config.packing.fuses_beta = is_next;
  const std::uint32_t values = keys.uint("ssm.inner_size"); // for all heads together
  if (heads.num_values == 0 || values % heads.num_values != 0)
    return keys.refuse("ssm.inner_size",
                       "must be a multiple of ssm.time_step_rank, " + std::to_string(heads.num_values));
  heads.value_dim = values / heads.num_values;
  const std::vector<bool> recurrent = keys.layer_flags("attention.recurrent_layers", config.num_layers);
  const std::uint32_t interval = keys.uint_or("full_attention_interval", default_interval);
  if (interval == 0) return keys.refuse("full_attention_interval", "must be at least 1");
  take_mtp_modules(keys, config);
  for (std::uint32_t l = 0; l < config.num_layers && !keys.failure(); ++l)
    config.layer_kinds.push_back(recurrent.empty() ? kind_at(l, interval)
                                 : recurrent[l]    ? layer_kind::gated_delta
                                                   : layer_kind::attention);
}

void read_hf_qwen35(const json_node& fields, model_config& config) {
  config.attention_gate = true;
  config.conv.num_taps = fields["linear_conv_kernel_dim"].uint_or(4);
  config.delta = {fields["linear_num_key_heads"].uint_or(16), fields["linear_num_value_heads"].uint_or(32),
                  fields["linear_key_head_dim"].uint_or(128), fields["linear_value_head_dim"].uint_or(128),
                  false};
  const bool is_next = config.arch == architecture::qwen3next;
  config.packing = {is_next, is_next};
  // Configs of Qwen3-Next do not say whether the checkpoint has a module.
  config.num_mtp_modules = fields["mtp_num_hidden_layers"].uint_or(is_next ? 1 : 0);
  if (fields["attention_bias"].flag_or(false))
    fields["attention_bias"].refuse("must be false: gates of attention have no biases", errc::unsupported);
  if (const std::string gate = fields["output_gate_type"].string_or("silu");
      gate != "silu" && gate != "swish")
    fields["output_gate_type"].refuse("must be 'silu' or 'swish'", errc::unsupported);
  if (const json_node types = fields["layer_types"])
    return read_layer_kinds(types, "linear_attention", layer_kind::gated_delta, config);
  const std::uint32_t interval = fields["full_attention_interval"].uint_or(default_interval);
  if (interval == 0) return fields["full_attention_interval"].refuse("must be at least 1");
  for (std::uint32_t l = 0; l < config.num_layers; ++l) config.layer_kinds.push_back(kind_at(l, interval));
}

} // namespace paceline::model
