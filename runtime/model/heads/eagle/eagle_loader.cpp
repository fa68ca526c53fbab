#include "runtime/model/heads/files/head_loader.hpp"

#include "runtime/model/heads/eagle/eagle_head.hpp"
#include "runtime/model/heads/files/draft_vocabulary.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"

#include <cctype>
#include <new>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

bool begins_with_number(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

/// Converts a tensor's name to the form of speculators: "layers.0.self_attn.q_proj.weight", without "model.".
std::string name_in_speculators(std::string_view name) {
  if (name.starts_with("model.")) name.remove_prefix(6);
  const auto moved = [&](std::string_view prefix, std::string_view to) {
    return std::string(to) + std::string(name.substr(prefix.size()));
  };
  if (name.starts_with("midlayer."))
    return begins_with_number(name.substr(9)) ? moved("midlayer.", "layers.")
                                              : moved("midlayer.", "layers.0.");
  // The first EAGLE heads of speculators.
  if (name.starts_with("transformer.")) return moved("transformer.", "layers.0.");
  if (name.starts_with("fusion_fc.")) return moved("fusion_fc.", "fc.");
  if (name.starts_with("pre_lm_head_layernorm.")) return moved("pre_lm_head_layernorm.", "norm.");
  if (name == "hidden_states_layernorm.weight") return "layers.0.hidden_norm.weight";
  if (name == "embedding_layernorm.weight") return "embedding_norm.weight";
  return std::string(name);
}

/// Takes the tensors that both versions have.
void take_common(head_tensors& tensors, const eagle_config& config, const head_target& target,
                 eagle_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size;
  if (config.masks == mask_rows::feature && !tensors.has("embed_tokens.weight"))
    tensors.refuse_missing("embed_tokens.weight", ": a head with mask_hidden was trained with its own");
  else if (tensors.has("embed_tokens.weight"))
    weights.embedding = tensors.matrix("embed_tokens.weight", config.vocab_size, width);
  else if (target.hidden_size != width)
    tensors.refuse_missing("embed_tokens.weight", ": the target's has " + std::to_string(target.hidden_size) +
                                                      " values a token, the head needs " +
                                                      std::to_string(width));
  const bool is_tied = config.ties_lm_head && weights.embedding != nullptr;
  if (tensors.has("lm_head.weight"))
    weights.lm_head = tensors.matrix("lm_head.weight", config.layer.vocab_size, width);
  else if (target.hidden_size != width && !is_tied)
    tensors.refuse_missing("lm_head.weight", ": the target's reads " + std::to_string(target.hidden_size) +
                                                 " values, the head has " + std::to_string(width));
  else if (config.layer.vocab_size != config.vocab_size)
    tensors.refuse_missing("lm_head.weight",
                           ": the draft vocabulary has " + std::to_string(config.layer.vocab_size) +
                               " tokens, the target's " + std::to_string(config.vocab_size));
  tensors.vector("fc.bias", width, weights.fc_bias, false);
  for (const char* const unused : {"t2d", "verifier_norm.weight", "verifier_lm_head.weight"})
    tensors.ignore(unused);
}

void take_eagle3(head_tensors& tensors, const eagle_config& config, eagle_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size, target_width = config.target_hidden_size;
  const std::uint64_t num_tapped = std::uint64_t{config.taps.size()} * target_width;
  weights.fc = tensors.matrix("fc.weight", width, num_tapped);
  tensors.vector("input_norm.weight", num_tapped, weights.input_norm, config.has_input_norm);
  if (config.has_tap_norms || tensors.has("fc_norm.0.weight")) {
    weights.tap_norms.resize(config.taps.size());
    for (std::size_t t = 0; t < config.taps.size(); ++t)
      tensors.vector("fc_norm." + std::to_string(t) + ".weight", target_width, weights.tap_norms[t]);
  }
  tensors.vector("layers.0.hidden_norm.weight", width, weights.feature_norm);
  tensors.vector("layers.0.input_layernorm.weight", width, weights.embedding_norm);
  tensors.layer("layers.0.", config.layer, 2 * width, weights.layers[0]);
  for (std::uint32_t l = 1; l < config.layer.num_layers; ++l) {
    const std::string prefix = "layers." + std::to_string(l) + ".";
    if (tensors.has(prefix + "hidden_norm.weight") && tensors.has(prefix + "input_layernorm.weight"))
      tensors.refuse(prefix + "hidden_norm.weight",
                     "belongs to a layer that reads two vectors: only the first one may");
    else if (tensors.has(prefix + "hidden_norm.weight")) // the name in SGLang and Model-Optimizer
      tensors.vector(prefix + "hidden_norm.weight", width, weights.layers[l].attention_norm);
    else if (!tensors.has(prefix + "input_layernorm.weight"))
      tensors.refuse_missing(prefix + "input_layernorm.weight");
    tensors.layer(prefix, config.layer, width, weights.layers[l]);
  }
  tensors.vector("norm.weight", width, weights.output_norm);
  if (config.masks == mask_rows::feature) tensors.vector("mask_hidden", num_tapped, weights.mask);
  if (config.masks == mask_rows::attention_input)
    tensors.vector("layers.0.mask_rep", std::uint64_t{2} * width, weights.mask);
}

void take_eagle(head_tensors& tensors, const eagle_config& config, eagle_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size;
  weights.fc = tensors.matrix("fc.weight", width, 2 * std::uint64_t{width});
  tensors.vector("embedding_norm.weight", width, weights.embedding_norm, false);
  tensors.vector("layers.0.hidden_norm.weight", width, weights.feature_norm, false);
  for (std::uint32_t l = 0; l < config.layer.num_layers; ++l)
    tensors.layer("layers." + std::to_string(l) + ".", config.layer, width, weights.layers[l]);
  tensors.vector("norm.weight", width, weights.output_norm, config.norm_output);
}

/// The name that a tensor of a GGUF file has in the form of speculators. Factors of rotation are read
/// together with the sizes.
std::string name_of_eagle_tensor(std::string_view name) {
  if (name == "rope_freqs.weight") return "";
  if (name == "enc.output_norm.weight") return "input_norm.weight";
  return name_in_directories(name);
}

/// The inverse.
std::string name_in_eagle_gguf(std::string_view own) {
  return own == "input_norm.weight" ? "enc.output_norm.weight" : name_in_gguf(own);
}

/// Takes the tensors of a head whose config was read.
expected<std::shared_ptr<const draft_head>> take_head(head_tensors& tensors, eagle_config config,
                                                      std::shared_ptr<const transformer> target,
                                                      const head_load_options& options, head_memory memory,
                                                      bool is_gguf) {
  auto weights = std::make_unique<eagle_weights>();
  weights->layers.resize(config.layer.num_layers);
  take_common(tensors, config, facts_of(*target), *weights);
  if (config.version == eagle_version::eagle3)
    take_eagle3(tensors, config, *weights);
  else
    take_eagle(tensors, config, *weights);
  auto ids = take_target_ids(tensors, config.layer.vocab_size, config.vocab_size, weights->lm_head != nullptr,
                             is_gguf);
  auto vectors = tensors.upload(memory.buffers);
  if (!vectors) return std::move(vectors).error();
  weights->vectors = *std::move(vectors);
  return std::shared_ptr<const draft_head>(std::make_shared<eagle_head>(std::move(config), std::move(weights),
                                                                        std::move(target), std::move(ids),
                                                                        options.kv_type, memory.buffers));
}

expected<std::shared_ptr<const draft_head>> load_gguf_head(const std::filesystem::path& path,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           head_memory memory) {
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  auto config = read_eagle_config(*file, facts_of(*target), options.overrides);
  if (!config) return std::move(config).error();
  auto tensors =
      head_tensors::of(tensors_of(*file), path, name_of_eagle_tensor, memory.weights, options.format);
  if (!tensors) return std::move(tensors).error();
  tensors->set_file_names(name_in_eagle_gguf);
  return take_head(*tensors, *std::move(config), std::move(target), options, memory, true);
}

/// Loads a head from a directory. With `is_dart` it has DART's mask rows, otherwise those that the tensors
/// show.
expected<std::shared_ptr<const draft_head>> load_directory(const std::filesystem::path& directory,
                                                           eagle_version version, bool is_dart,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           head_memory memory) {
  const auto config_path = directory / "config.json";
  auto object = read_json_file(config_path);
  if (!object) return std::move(object).error();
  auto tensors = head_tensors::open(directory, name_in_speculators, memory.weights, options.format);
  if (!tensors) return std::move(tensors).error();
  if (tensors->num_layers() == 0)
    return error(errc::invalid_file, directory.string() + ": no tensor 'midlayer.*' or 'layers.0.*'");
  const bool is_eagle3 =
      tensors->has("layers.0.hidden_norm.weight") && tensors->has("layers.0.input_layernorm.weight");
  if (version == eagle_version::eagle && is_eagle3)
    return error(errc::invalid_argument,
                 directory.string() + ": is a head of EAGLE-3, the kind is not eagle3");
  if (!is_dart && tensors->has("layers.0.mask_rep"))
    return error(errc::invalid_argument, directory.string() + ": is a head of DART, the kind is not dart");
  const mask_rows masks = is_dart                       ? mask_rows::attention_input
                          : tensors->has("mask_hidden") ? mask_rows::feature
                                                        : mask_rows::none;
  auto config = read_eagle_config(*object, config_path.string(), version, {tensors->num_layers(), masks},
                                  facts_of(*target), options.overrides);
  if (!config) return std::move(config).error();
  return take_head(*tensors, *std::move(config), std::move(target), options, memory, false);
}

} // namespace

expected<std::shared_ptr<const draft_head>>
load_eagle_head(const std::filesystem::path& path, eagle_version version,
                std::shared_ptr<const transformer> target, const head_load_options& options,
                device::weight_memory& memory, device::buffer_memory& buffers) try {
  if (is_gguf_head(path)) return load_gguf_head(path, std::move(target), options, {memory, buffers});
  return load_directory(path, version, false, std::move(target), options, {memory, buffers});
} catch (const std::bad_alloc&) {
  return error(errc::resource_exhausted, path.string() + ": not enough memory");
}

expected<std::shared_ptr<const draft_head>> load_dart_head(const std::filesystem::path& directory,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           device::weight_memory& memory,
                                                           device::buffer_memory& buffers) try {
  return load_directory(directory, eagle_version::eagle3, true, std::move(target), options,
                        {memory, buffers});
} catch (const std::bad_alloc&) {
  return error(errc::resource_exhausted, directory.string() + ": not enough memory");
}

} // namespace paceline::model
