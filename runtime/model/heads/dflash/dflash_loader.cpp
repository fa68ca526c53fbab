#include "runtime/model/heads/dflash/dflash_head.hpp"
#include "runtime/model/heads/files/draft_vocabulary.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

/// Model-Optimizer writes the names of DSpark's parts without the names of the modules around them.
std::string name_in_modules(std::string_view name) {
  for (const std::string_view prefix : {"model.", "logit_head."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  for (const std::string_view part : {"markov_w1.", "markov_w2.", "gate_proj.", "joint_proj."})
    if (name.starts_with(part)) return "markov_head." + std::string(name);
  constexpr std::string_view confidence = "confidence_proj.";
  if (name.starts_with(confidence))
    return "confidence_head.proj." + std::string(name.substr(confidence.size()));
  return std::string(name);
}

/// The name that a tensor of a GGUF file has in directories.
std::string name_of_dflash_tensor(std::string_view name) {
  if (name == "enc.output_norm.weight") return "hidden_norm.weight";
  if (name.starts_with("markov_w")) return "markov_head." + std::string(name);
  constexpr std::string_view confidence = "conf_proj.";
  if (name.starts_with(confidence))
    return "confidence_head.proj." + std::string(name.substr(confidence.size()));
  return name_in_directories(name);
}

/// The inverse.
std::string name_in_dflash_gguf(std::string_view own) {
  constexpr std::string_view markov = "markov_head.", confidence = "confidence_head.proj.";
  if (own == "hidden_norm.weight") return "enc.output_norm.weight";
  if (own.starts_with(markov)) return std::string(own.substr(markov.size()));
  if (own.starts_with(confidence)) return "conf_proj." + std::string(own.substr(confidence.size()));
  return name_in_gguf(own);
}

void take_layers(head_tensors& tensors, const dflash_config& config, dflash_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size;
  weights.layers.resize(config.layer.num_layers);
  for (std::uint32_t l = 0; l < config.layer.num_layers; ++l) {
    const std::string prefix = "layers." + std::to_string(l) + ".";
    for (const char* const norm : {"input_layernorm", "self_attn.q_norm", "self_attn.k_norm"})
      if (!tensors.has(prefix + norm + ".weight")) tensors.refuse_missing(prefix + norm + ".weight");
    tensors.layer(prefix, config.layer, width, weights.layers[l]);
  }
}

dflash_tensors shown_by(const head_tensors& tensors) {
  constexpr const char* previous = "markov_head.markov_w1.weight";
  const std::uint64_t rows = std::max<std::uint64_t>(tensors.num_rows(previous), 1);
  return {.num_layers = tensors.num_layers(),
          .markov_rank = static_cast<std::uint32_t>(tensors.num_values(previous) / rows),
          .confidence_width = static_cast<std::uint32_t>(tensors.num_values("confidence_head.proj.weight")),
          .has_embedding = tensors.has("embed_tokens.weight")};
}

/// Takes the embedding and the LM head, if the head has its own.
void take_outer(head_tensors& tensors, const dflash_config& config, const head_target& target,
                dflash_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size;
  const bool has_embedding = tensors.has("embed_tokens.weight"), has_lm_head = tensors.has("lm_head.weight");
  if (has_embedding) weights.embedding = tensors.matrix("embed_tokens.weight", config.vocab_size, width);
  if (has_lm_head) weights.lm_head = tensors.matrix("lm_head.weight", config.layer.vocab_size, width);
  if (!has_lm_head && config.layer.vocab_size != config.vocab_size)
    tensors.refuse_missing("lm_head.weight",
                           ": the draft vocabulary has " + std::to_string(config.layer.vocab_size) +
                               " tokens, the target's " + std::to_string(config.vocab_size));
  if (has_lm_head && config.vocab_size > target.vocab_size)
    tensors.refuse("lm_head.weight", "is of a vocabulary of " + std::to_string(config.vocab_size) +
                                         " tokens, the target's has " + std::to_string(target.vocab_size));
  const std::uint32_t embedded = has_embedding ? config.vocab_size : target.vocab_size;
  if (static_cast<std::uint32_t>(config.mask_token.value) >= embedded)
    tensors.refuse("embed_tokens.weight", "has no row for the mask token " + to_string(config.mask_token) +
                                              " of mask_token_id: it has " + std::to_string(embedded));
  for (const char* const unused : {"t2d", "verifier_norm.weight", "verifier_lm_head.weight"})
    tensors.ignore(unused);
}

void take_markov(head_tensors& tensors, const dflash_config& config, std::uint32_t num_drafted, bool is_gguf,
                 markov_weights& markov) {
  const std::uint64_t width = config.layer.hidden_size, rank = config.markov_rank;
  markov.kind = config.markov;
  markov.rank = config.markov_rank;
  if (config.markov != markov_kind::none) {
    markov.previous = tensors.matrix("markov_head.markov_w1.weight", config.vocab_size, rank);
    markov.logits = tensors.matrix("markov_head.markov_w2.weight", num_drafted, rank);
  }
  if (config.markov == markov_kind::gated) {
    markov.mix = tensors.matrix("markov_head.gate_proj.weight", rank, width + rank);
    tensors.vector("markov_head.gate_proj.bias", rank, markov.mix_bias);
  } else if (config.markov == markov_kind::rnn) {
    markov.mix = tensors.matrix("markov_head.joint_proj.weight", 3 * rank, 2 * rank + width);
    tensors.vector("markov_head.joint_proj.bias", 3 * rank, markov.mix_bias);
    tensors.constant(rank, 0, markov.zeros);
  }
  if (!config.has_confidence) return;
  markov.confidence =
      tensors.matrix("confidence_head.proj.weight", 1, width + (config.confidence_reads_token ? rank : 0));
  tensors.vector("confidence_head.proj.bias", 1, markov.confidence_bias, !is_gguf);
}

/// Takes the tensors of a head whose config was read.
expected<std::shared_ptr<const draft_head>> take_head(head_tensors& tensors, dflash_config config,
                                                      std::shared_ptr<const transformer> target,
                                                      const head_load_options& options, head_memory memory,
                                                      bool is_gguf) {
  auto weights = std::make_unique<dflash_weights>();
  const std::uint32_t width = config.layer.hidden_size;
  weights->fc = tensors.matrix("fc.weight", width, config.taps.size() * std::uint64_t{width});
  tensors.vector("hidden_norm.weight", width, weights->context_norm);
  tensors.vector("norm.weight", width, weights->output_norm);
  take_layers(tensors, config, *weights);
  take_outer(tensors, config, facts_of(*target), *weights);
  const bool has_lm_head = weights->lm_head != nullptr;
  take_markov(tensors, config, has_lm_head ? config.layer.vocab_size : target->info().vocab_size, is_gguf,
              weights->markov);
  auto ids = take_target_ids(tensors, config.layer.vocab_size, config.vocab_size, has_lm_head, is_gguf);
  auto vectors = tensors.upload(memory.buffers);
  if (!vectors) return std::move(vectors).error();
  weights->vectors = *std::move(vectors);
  return std::shared_ptr<const draft_head>(
      std::make_shared<dflash_head>(std::move(config), std::move(weights), std::move(target), std::move(ids),
                                    options.kv_type, memory.buffers));
}

expected<std::shared_ptr<const draft_head>> load_gguf_head(const std::filesystem::path& path,
                                                           const std::string& kind,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           head_memory memory) {
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  auto tensors =
      head_tensors::of(tensors_of(*file), path, name_of_dflash_tensor, memory.weights, options.format);
  if (!tensors) return std::move(tensors).error();
  tensors->set_file_names(name_in_dflash_gguf);
  auto config = read_dflash_config(*file, kind, shown_by(*tensors), facts_of(*target), options.overrides);
  if (!config) return std::move(config).error();
  return take_head(*tensors, *std::move(config), std::move(target), options, memory, true);
}

expected<std::shared_ptr<const draft_head>> load_directory(const std::filesystem::path& directory,
                                                           const std::string& kind,
                                                           std::shared_ptr<const transformer> target,
                                                           const head_load_options& options,
                                                           head_memory memory) {
  const auto config_path = directory / "config.json";
  auto object = read_json_file(config_path);
  if (!object) return std::move(object).error();
  auto tensors = head_tensors::open(directory, name_in_modules, memory.weights, options.format);
  if (!tensors) return std::move(tensors).error();
  if (tensors->num_layers() == 0)
    return error(errc::invalid_file, directory.string() + ": no tensor 'layers.0.*'");
  auto config = read_dflash_config(*object, config_path.string(), kind, shown_by(*tensors), facts_of(*target),
                                   options.overrides);
  if (!config) return std::move(config).error();
  return take_head(*tensors, *std::move(config), std::move(target), options, memory, false);
}

} // namespace

expected<std::shared_ptr<const draft_head>>
load_dflash_head(const std::filesystem::path& path, const std::string& kind,
                 std::shared_ptr<const transformer> target, const head_load_options& options,
                 device::weight_memory& memory, device::buffer_memory& buffers) try {
  if (is_gguf_head(path)) return load_gguf_head(path, kind, std::move(target), options, {memory, buffers});
  return load_directory(path, kind, std::move(target), options, {memory, buffers});
} catch (const std::bad_alloc&) {
  return error(errc::resource_exhausted, path.string() + ": not enough memory");
}

} // namespace paceline::model
