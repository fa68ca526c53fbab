#include "runtime/model/heads/eagle/eagle_config.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/heads/files/layer_fields.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/gguf/gguf_model.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

/// The key of the array that lists the layers whose output is tapped.
std::string key_of_taps(const gguf_metadata& metadata) {
  constexpr const char* key = "eagle3.target_layers";
  constexpr const char* older_key = "eagle3.extract_layers";
  return metadata.find(key) ? key : older_key;
}

expected<void> check_sizes(const gguf_file& file, const eagle_config& config) {
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
  return {};
}

/// The architecture of a model's file, if its module is supported.
expected<architecture> architecture_with_mtp(const gguf_metadata& metadata) {
  const auto name = metadata.require_string("general.architecture");
  if (!name) return name.error();
  for (const family_traits& family : all_families())
    if (family.has_mtp_module && *name == to_string(family.arch)) return family.arch;
  return metadata.key_error("general.architecture",
                            "is " + quote(*name) + "; modules for multi-token prediction are supported of " +
                                names_of_families({&family_traits::has_mtp_module}),
                            errc::unsupported);
}

/// Error unless the module can be of the target: it reads the target's states, and its embedding and LM head
/// are usually the target's. A dense module of a mixture's file has the architecture of the mixture.
expected<void> check_model_of_module(const gguf_file& file, const eagle_config& config,
                                     const head_target& target) {
  const auto differs = [&](const std::string& key, const std::string& own, const std::string& of_target) {
    return file.metadata().key_error(key, "is " + own + ", the target's " + of_target);
  };
  const std::string arch(to_string(config.layer.arch));
  if (config.layer.arch != target.arch)
    return differs("general.architecture", quote(arch), "is " + quote(to_string(target.arch)));
  if (config.target_hidden_size != target.hidden_size)
    return differs(arch + ".embedding_length", std::to_string(config.target_hidden_size),
                   "hidden size is " + std::to_string(target.hidden_size));
  if (config.vocab_size != target.vocab_size)
    return error(errc::invalid_file, file.name() + ": has " + std::to_string(config.vocab_size) +
                                         " tokens, the target has " + std::to_string(target.vocab_size));
  return {};
}

/// Whether layer `layer` of the file has tensors of a mixture of experts.
bool has_experts(const gguf_file& file, std::uint32_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".ffn_";
  return std::ranges::any_of(file.tensors(), [&](const gguf_tensor& one) {
    const std::string_view name = one.name;
    return name.starts_with(prefix) && (name.ends_with("_exps.weight") || name.ends_with("_inp.weight"));
  });
}

} // namespace

expected<std::uint32_t> gguf_mtp_layer(const gguf_file& file) {
  const gguf_metadata& metadata = file.metadata();
  const auto arch = architecture_with_mtp(metadata);
  if (!arch) return arch.error();
  const std::string name(to_string(*arch));
  const auto layers = metadata.require_uint(name + ".block_count", 1, most_layers);
  if (!layers) return layers.error();
  const std::string key = name + ".nextn_predict_layers";
  const auto modules = metadata.require_uint(key, 0, *layers);
  if (!modules) return modules.error();
  if (*modules != 1)
    return metadata.key_error(key, "is " + std::to_string(*modules) + "; heads have one module",
                              errc::unsupported);
  return static_cast<std::uint32_t>(*layers - 1);
}

expected<eagle_config> read_mtp_config(const gguf_file& file, const std::optional<head_target>& target,
                                       const head_overrides& overrides) {
  const auto arch = architecture_with_mtp(file.metadata());
  if (!arch) return arch.error();
  const auto number = gguf_mtp_layer(file);
  if (!number) return number.error();
  auto layer = read_gguf_mtp_config(file, *arch, has_experts(file, *number), overrides.rope_theta);
  if (!layer) return std::move(layer).error();
  const std::string name(to_string(*arch));
  eagle_config config;
  config.version = eagle_version::eagle;
  config.name = "mtp";
  config.layer = *std::move(layer);
  config.vocab_size = config.layer.vocab_size;
  config.target_hidden_size = config.layer.hidden_size;
  config.norm_output = true;
  config.hidden_first = overrides.hidden_first.value_or(false);
  if (config.layer.head_dim > device::max_head_dim)
    return file.metadata().key_error(name + ".attention.key_length",
                                     "is above " + std::to_string(device::max_head_dim), errc::unsupported);
  if (!target) return config;
  config.taps = {layer_index{target->num_layers}};
  if (auto ok = check_model_of_module(file, config, *target); !ok) return std::move(ok).error();
  return config;
}

expected<eagle_config> read_eagle_config(const gguf_file& file, const std::optional<head_target>& target,
                                         const head_overrides& overrides) {
  const gguf_metadata& metadata = file.metadata();
  auto layer = read_gguf_layer_config(file, "eagle3", overrides.rope_theta);
  if (!layer) return std::move(layer).error();
  eagle_config config;
  config.layer = *std::move(layer);
  config.layer.layout = rope_layout::interleaved;
  config.vocab_size = config.layer.vocab_size;
  config.layer.vocab_size = num_gguf_drafted(file, config.vocab_size);
  const auto width = metadata.require_uint("eagle3.target_hidden_size", 1, UINT32_MAX);
  if (!width) return width.error();
  config.target_hidden_size = static_cast<std::uint32_t>(*width);
  const auto normed_residual = metadata.find_bool("eagle3.norm_before_residual");
  if (!normed_residual) return normed_residual.error();
  config.norm_before_residual = normed_residual->value_or(false);
  const auto normed_input = metadata.find_bool("eagle3.norm_before_fc");
  if (!normed_input) return normed_input.error();
  config.has_input_norm = normed_input->value_or(false);
  auto taps = overrides.taps.empty()
                  ? read_gguf_taps(metadata, key_of_taps(metadata), target ? target->num_layers : most_layers)
                  : expected<std::vector<layer_index>>(overrides.taps);
  if (!taps) return std::move(taps).error();
  config.taps = *std::move(taps);
  if (auto ok = check_sizes(file, config); !ok) return std::move(ok).error();
  if (target)
    if (auto ok = check_target(file, config, *target); !ok) return std::move(ok).error();
  if (auto ok = check_gguf_tokens(file, config.layer.vocab_size, config.vocab_size, target); !ok)
    return std::move(ok).error();
  return config;
}

} // namespace paceline::model
