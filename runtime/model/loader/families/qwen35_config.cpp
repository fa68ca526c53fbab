#include "runtime/model/loader/families/qwen35_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/families/layer_types.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {
namespace {

constexpr std::uint32_t default_interval = 4; ///< one layer in so many has attention
constexpr std::string_view kv_heads_name = "attention.head_count_kv";

layer_kind kind_at(std::uint32_t layer, std::uint32_t interval) noexcept {
  return (layer + 1) % interval == 0 ? layer_kind::attention : layer_kind::gated_delta;
}

/// The modules follow the layers, and the file counts them as layers.
void take_mtp_modules(gguf_keys& keys, model_config& config) {
  config.num_mtp_modules = keys.uint_or("nextn_predict_layers", 0);
  if (config.num_mtp_modules >= config.num_layers)
    return keys.refuse("nextn_predict_layers", "must be below block_count");
  config.num_layers -= config.num_mtp_modules;
  config.local_layers.resize(config.num_layers);
}

/// The numbers of KV heads of a file that lists 0 for layers without attention, as Ollama's converter does;
/// empty for other files.
std::vector<std::uint64_t> listed_kv_heads(gguf_keys& keys, const model_config& config) {
  if (!keys.has(kv_heads_name)) return {};
  auto numbers = keys.per_layer(kv_heads_name, config.num_layers);
  if (std::ranges::count(numbers, 0U) == 0) numbers.clear();
  return numbers;
}

/// The flags of layers count, else the interval, else the list of KV heads, which must agree with both.
void read_gguf_layer_kinds(gguf_keys& keys, model_config& config) {
  const std::vector<bool> recurrent = keys.layer_flags("attention.recurrent_layers", config.num_layers);
  const std::vector<std::uint64_t> kv_heads = listed_kv_heads(keys, config);
  const bool is_by_interval = kv_heads.empty() || keys.has("full_attention_interval");
  const std::uint32_t interval = keys.uint_or("full_attention_interval", default_interval);
  if (interval == 0) return keys.refuse("full_attention_interval", "must be at least 1");
  take_mtp_modules(keys, config);
  for (std::uint32_t l = 0; l < config.num_layers && !keys.failure(); ++l) {
    const bool has_rule = !recurrent.empty() ? recurrent[l]
                          : is_by_interval   ? kind_at(l, interval) == layer_kind::gated_delta
                                             : kv_heads[l] == 0;
    if (!kv_heads.empty() && (kv_heads[l] == 0) != has_rule)
      keys.refuse(kv_heads_name, "is " + std::to_string(kv_heads[l]) + " for layer " + std::to_string(l) +
                                     ", which has " + (has_rule ? "no attention" : "attention"));
    config.layer_kinds.push_back(has_rule ? layer_kind::gated_delta : layer_kind::attention);
  }
}

/// True if delta rules have queries, keys, values and gates in one tensor, as in Hugging Face's files and in
/// the GGUF files of llama.cpp's first converter.
bool has_fused_gate(const gguf_file& file, const model_config& config) {
  const auto first = std::ranges::find(config.layer_kinds, layer_kind::gated_delta);
  if (first == config.layer_kinds.end()) return false;
  return file.find_tensor("blk." + std::to_string(first - config.layer_kinds.begin()) + ".ssm_in.weight");
}

} // namespace

void read_gguf_qwen35(const gguf_file& file, gguf_keys& keys, model_config& config) {
  config.attention_gate = true;
  config.conv.num_taps = keys.uint("ssm.conv_kernel");
  device::delta_heads& heads = config.delta;
  heads.num_keys = keys.uint("ssm.group_count");
  heads.num_values = keys.uint("ssm.time_step_rank");
  heads.key_dim = keys.uint("ssm.state_size");
  const bool is_next = config.arch == architecture::qwen3next;
  // The order that llama.cpp's converter writes. Ollama's says so.
  heads.tiled = !is_next && keys.flag_or("ssm.v_head_reordered", true);
  config.packing.fuses_beta = is_next;
  const std::uint32_t values = keys.uint("ssm.inner_size"); // for all heads together
  if (heads.num_values == 0 || values % heads.num_values != 0)
    return keys.refuse("ssm.inner_size",
                       "must be a multiple of ssm.time_step_rank, " + std::to_string(heads.num_values));
  heads.value_dim = values / heads.num_values;
  read_gguf_layer_kinds(keys, config);
  config.packing.fuses_gate = is_next && has_fused_gate(file, config);
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
