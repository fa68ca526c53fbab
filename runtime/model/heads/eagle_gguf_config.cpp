#include "runtime/model/heads/eagle_config.hpp"
#include "runtime/model/loader/gguf_model.hpp"

#include "runtime/device/op_kv.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

constexpr const char* target_layers = "eagle3.target_layers";
constexpr const char* older_target_layers = "eagle3.extract_layers";

/// The layers that read a tapped vector, counted from 0; the layer before has written it.
expected<std::vector<layer_index>> read_taps(const gguf_metadata& metadata, std::uint32_t num_layers) {
  const char* const key = metadata.find(target_layers) ? target_layers : older_target_layers;
  const auto ids = metadata.find_numbers(key);
  if (!ids) return ids.error();
  if (!*ids || (*ids)->size() == 0 || !(*ids)->is_integer())
    return metadata.key_error(key, "must name layers of the target");
  std::vector<layer_index> taps;
  for (std::size_t i = 0; i < (*ids)->size(); ++i) {
    const auto id = (*ids)->as_uint(i);
    if (!id || *id < 1 || *id > num_layers)
      return metadata.key_error(key, "must hold 1 to " + std::to_string(num_layers) + ": the target has " +
                                         std::to_string(num_layers) + " layers");
    taps.push_back(layer_index{static_cast<std::uint32_t>(*id - 1)});
  }
  return taps;
}

expected<void> check_sizes(const gguf_file& file, const eagle_config& config) {
  if (config.layer.vocab_size > config.vocab_size)
    return error(errc::invalid_file, file.name() + ": tensor 'd2t' has " +
                                         std::to_string(config.layer.vocab_size) + " tokens, the file has " +
                                         std::to_string(config.vocab_size));
  if (config.layer.head_dim > device::max_head_dim)
    return file.metadata().key_error("eagle3.attention.key_length",
                                     "is above " + std::to_string(device::max_head_dim), errc::unsupported);
  return {};
}

expected<void> check_target(const gguf_file& file, const eagle_config& config, const head_target& target) {
  const gguf_metadata& metadata = file.metadata();
  if (config.target_hidden_size != target.hidden_size)
    return metadata.key_error("eagle3.target_hidden_size", "is " + std::to_string(config.target_hidden_size) +
                                                               ", the target's hidden size is " +
                                                               std::to_string(target.hidden_size));
  if (config.vocab_size > target.vocab_size)
    return metadata.key_error("tokenizer.ggml.tokens", "has " + std::to_string(config.vocab_size) +
                                                           " tokens, the target has " +
                                                           std::to_string(target.vocab_size));
  return {};
}

} // namespace

expected<eagle_config> read_eagle_config(const gguf_file& file, const std::optional<head_target>& target,
                                         const head_overrides& overrides) {
  const gguf_metadata& metadata = file.metadata();
  auto layer = read_gguf_layer_config(file, "eagle3");
  if (!layer) return std::move(layer).error();
  eagle_config config;
  config.layer = *std::move(layer);
  config.layer.layout = rope_layout::interleaved;
  if (overrides.rope_theta != 0) {
    config.layer.rope.theta = config.layer.local_rope.theta = overrides.rope_theta;
    if (auto ok = validate(config.layer); !ok) return std::move(ok).error().within(file.name());
  }
  config.vocab_size = config.layer.vocab_size;
  if (const gguf_tensor* map = file.find_tensor("d2t"))
    config.layer.vocab_size = static_cast<std::uint32_t>(std::min<std::uint64_t>(map->shape[0], UINT32_MAX));
  const auto width = metadata.require_uint("eagle3.target_hidden_size", 1, UINT32_MAX);
  if (!width) return width.error();
  config.target_hidden_size = static_cast<std::uint32_t>(*width);
  const auto normed_residual = metadata.find_bool("eagle3.norm_before_residual");
  if (!normed_residual) return normed_residual.error();
  config.norm_before_residual = normed_residual->value_or(false);
  const auto normed_input = metadata.find_bool("eagle3.norm_before_fc");
  if (!normed_input) return normed_input.error();
  config.has_input_norm = normed_input->value_or(false);
  constexpr std::uint32_t most_layers = 4096; // more than any target has
  auto taps = overrides.taps.empty() ? read_taps(metadata, target ? target->num_layers : most_layers)
                                     : expected<std::vector<layer_index>>(overrides.taps);
  if (!taps) return std::move(taps).error();
  config.taps = *std::move(taps);
  if (auto ok = check_sizes(file, config); !ok) return std::move(ok).error();
  if (target)
    if (auto ok = check_target(file, config, *target); !ok) return std::move(ok).error();
  return config;
}

} // namespace paceline::model
