#include "runtime/model/heads/dflash/dflash_config.hpp"

#include "runtime/device/op_kv.hpp"
#include "runtime/model/heads/files/layer_fields.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

constexpr const char* mask_token = "tokenizer.ggml.mask_token_id";

/// Refuses other networks of this architecture, and factors of the LM head, which the network does not have.
void refuse_others(gguf_keys& keys) {
  constexpr std::array of_dflash2{"selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"};
  for (const char* const key : of_dflash2)
    if (keys.has(key)) keys.refuse(key, "is of DFlash2, which is not supported", errc::unsupported);
  if (keys.uint_or("hyper_connection.count", 0) != 0)
    keys.refuse("hyper_connection.count", "is of DeepSeek-V4's layers, which are not supported",
                errc::unsupported);
  if (keys.number_or("logit_scale", 1) != 1) keys.refuse("logit_scale", "must be 1", errc::unsupported);
}

/// Unless the file says otherwise, DSpark's slots predict the token after them, and DFlash's slots the token
/// at their own place.
void read_block(gguf_keys& keys, dflash_config& config, const head_overrides& overrides) {
  const bool is_dspark = config.name == "dspark";
  config.block_size = is_dspark ? keys.uint("block_size") : keys.uint_or("block_size", 16);
  config.predicts_next = overrides.predicts_next.value_or(keys.flag_or("sample_from_anchor", is_dspark));
  if (const std::string rule = rule_of_block(config); !rule.empty()) keys.refuse("block_size", rule);
}

/// A window contains the last positions up to the slot. A slot sees the whole block, unless the layer is
/// causal.
void read_window(gguf_keys& keys, dflash_config& config) {
  constexpr const char* size = "attention.sliding_window";
  constexpr const char* pattern = "attention.sliding_window_pattern";
  config.has_window.assign(config.layer.num_layers, false);
  config.window = {.size = keys.uint_or(size, 0),
                   .is_causal = keys.flag_or("attention.causal", false),
                   .ends_at_slot = true};
  if (config.window.size != 0) {
    auto flags = keys.layer_flags(pattern, config.layer.num_layers);
    if (flags.empty()) return keys.refuse(pattern, "must be an array of one flag for each layer");
    config.has_window = std::move(flags);
  }
  if (config.window.is_causal && std::ranges::find(config.has_window, false) != config.has_window.end())
    return keys.refuse("attention.causal", "must be false: layers of full attention see the whole block",
                       errc::unsupported);
  const bool any = std::ranges::find(config.has_window, true) != config.has_window.end();
  if (const std::string rule = rule_of_window(config); any && !rule.empty()) keys.refuse(size, rule);
}

/// GGUF files have Markov heads of kind `vanilla` only.
void read_markov(dflash_config& config, const dflash_tensors& tensors) {
  config.markov_rank = tensors.markov_rank;
  if (config.markov_rank > 0) config.markov = markov_kind::vanilla;
  config.has_confidence = tensors.confidence_width > 0;
  config.confidence_reads_token =
      config.markov_rank > 0 && tensors.confidence_width > config.layer.hidden_size;
}

void check_sizes(gguf_keys& keys, const dflash_config& config, const std::optional<head_target>& target) {
  if (config.layer.head_dim > device::max_head_dim)
    keys.refuse("attention.key_length", "is above " + std::to_string(device::max_head_dim),
                errc::unsupported);
  if (target && config.layer.hidden_size != target->hidden_size)
    keys.refuse("embedding_length", "is " + std::to_string(config.layer.hidden_size) +
                                        ", the target's hidden size is " +
                                        std::to_string(target->hidden_size));
}

} // namespace

expected<dflash_config> read_dflash_config(const gguf_file& file, const std::string& name,
                                           const dflash_tensors& tensors,
                                           const std::optional<head_target>& target,
                                           const head_overrides& overrides) {
  const gguf_metadata& metadata = file.metadata();
  gguf_keys keys(metadata, "dflash");
  refuse_others(keys);
  if (keys.failure()) return *keys.failure();
  auto layer = read_gguf_layer_config(file, "dflash", overrides.rope_theta);
  if (!layer) return std::move(layer).error();
  dflash_config config;
  config.name = name;
  config.layer = *std::move(layer);
  config.vocab_size = config.layer.vocab_size;
  config.layer.vocab_size = num_gguf_drafted(file, config.vocab_size);
  config.embedding_scale = static_cast<float>(keys.number_or("embedding_scale", 1));
  read_markov(config, tensors);
  read_block(keys, config, overrides);
  read_window(keys, config);
  check_sizes(keys, config, target);
  if (keys.failure()) return *keys.failure();
  const auto mask = metadata.require_uint(mask_token, 0, INT32_MAX);
  if (!mask) return mask.error();
  config.mask_token = token_id{static_cast<std::int32_t>(*mask)};
  auto taps = overrides.taps.empty() ? read_gguf_taps(metadata, keys.key("target_layers"),
                                                      target ? target->num_layers : most_layers)
                                     : expected<std::vector<layer_index>>(overrides.taps);
  if (!taps) return std::move(taps).error();
  config.taps = *std::move(taps);
  if (auto ok = check_gguf_tokens(file, config.layer.vocab_size, config.vocab_size, target); !ok)
    return std::move(ok).error();
  return config;
}

} // namespace paceline::model
