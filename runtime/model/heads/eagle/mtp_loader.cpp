#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/heads/eagle/eagle_head.hpp"
#include "runtime/model/heads/files/head_files.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/loader/weights/mtp_names.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

/// The beginnings of the names of a module's tensors besides those of an ordinary layer, whose names begin
/// with "layers.0.".
struct mtp_part {
  std::string_view own, mimo, qwen, deepseek, gguf;
};

constexpr std::array<mtp_part, 4> mtp_parts = {{
    {"embedding_norm.", "token_layernorm.", "pre_fc_norm_embedding.", "enorm.", "nextn.enorm."},
    {"layers.0.hidden_norm.", "hidden_layernorm.", "pre_fc_norm_hidden.", "hnorm.", "nextn.hnorm."},
    {"fc.", "input_proj.", "fc.", "eh_proj.", "nextn.eh_proj."},
    {"norm.", "final_layernorm.", "norm.", "shared_head.norm.", "nextn.shared_head_norm."},
}};
using mtp_layout = std::string_view mtp_part::*; ///< the names in one layout

/// How a family stores its module.
struct mtp_dialect {
  std::string_view prefix;
  mtp_layout names;
  bool hidden_first; ///< order of the concatenation
  bool norm_output;  ///< what is fed back has been through the final norm
  float norm_offset; ///< added to norms in the file
  /// The family's attention has an output gate, and norms of queries and keys.
  bool is_gated = false;
  /// The base model's embedding and, if it has its own, its LM head.
  std::string_view base_embedding = "model.embed_tokens.weight", base_lm_head = "lm_head.weight";
  bool is_gguf = false; ///< a module without a final norm of its own uses the target's
};

constexpr std::array<mtp_dialect, 3> dialects = {{
    {"model.mtp_layers.0.", &mtp_part::mimo, true, true, 0}, // MiMo
    {"mtp_layers.0.", &mtp_part::mimo, false, true, 0},      // speculators
    {mtp_prefix, &mtp_part::qwen, false, true, 1, true},     // Qwen3-Next, Qwen3.5
}};

/// Qwen3.5 in llama.cpp's files, in layer `prefix`. Their norms hold the factors themselves. A module without
/// a final norm uses the target's, as in llama.cpp.
mtp_dialect gguf_dialect(std::string_view prefix) {
  return {prefix, &mtp_part::gguf, false, true, 0, true, "token_embd.weight", "output.weight", true};
}

/// The loader's name of a part of a module in one of `layouts`; empty: it is none.
std::string own_name(std::string_view name, std::initializer_list<mtp_layout> layouts) {
  for (const mtp_part& part : mtp_parts)
    for (const mtp_layout layout : layouts)
      if (name.starts_with(part.*layout))
        return std::string(part.own) + std::string(name.substr((part.*layout).size()));
  return "";
}

std::string renamed_tensor(std::string_view name) {
  if (auto own = own_name(name, {&mtp_part::mimo, &mtp_part::qwen, &mtp_part::deepseek}); !own.empty())
    return own;
  if (name.starts_with("layers.0.")) return std::string(name);
  for (const std::string_view outside : {"shared_head.head.weight", "embed_tokens.weight"})
    if (name.starts_with(outside)) return std::string(name); // in FP8 their scales, too
  return "layers.0." + std::string(name);
}

/// Norms before the feed-forward block.
constexpr std::string_view own_ffn_norm = "layers.0.post_attention_layernorm.",
                           gguf_ffn_norm = "post_attention_norm.";

/// The name that a tensor of the module in layer `prefix` of a GGUF file has in directories. It is empty for
/// a tensor of another layer.
std::string name_of_mtp_tensor(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return "";
  name.remove_prefix(prefix.size());
  if (name == "nextn.shared_head_head.weight") return "shared_head.head.weight";
  if (name == "nextn.embed_tokens.weight") return "embed_tokens.weight";
  if (auto own = own_name(name, {&mtp_part::gguf}); !own.empty()) return own;
  if (name.starts_with(gguf_ffn_norm))
    return std::string(own_ffn_norm) + std::string(name.substr(gguf_ffn_norm.size()));
  const std::string own = name_in_directories("blk.0." + std::string(name));
  return own.starts_with("blk.") ? "layers.0." + std::string(name) : own; // of experts: see `take_module`
}

/// The inverse, for every dialect: the name in the file.
std::string name_in_module(std::string_view own, const mtp_dialect& dialect) {
  constexpr std::string_view layer = "layers.0.";
  const auto in_module = [&](std::string_view begin, std::string_view rest) {
    return std::string(dialect.prefix) + std::string(begin) + std::string(rest);
  };
  for (const mtp_part& part : mtp_parts)
    if (own.starts_with(part.own)) return in_module(part.*dialect.names, own.substr(part.own.size()));
  if (dialect.names == &mtp_part::qwen || !own.starts_with(layer)) return in_module("", own);
  if (!dialect.is_gguf) return in_module("", own.substr(layer.size()));
  if (own.starts_with(own_ffn_norm)) return in_module(gguf_ffn_norm, own.substr(own_ffn_norm.size()));
  const std::string name = name_in_gguf(own); // "blk.0.", or "layers.0." where it has the same name
  return in_module("", std::string_view(name).substr(name.find("0.") + 2));
}

/// The number before the last dot of a prefix, raised by one: "mtp_layers.0." becomes "mtp_layers.1.".
std::string next_module(std::string_view prefix) {
  prefix.remove_suffix(1);
  const std::size_t dot = prefix.rfind('.') + 1;
  return std::string(prefix.substr(0, dot)) +
         std::to_string(std::stoul(std::string(prefix.substr(dot))) + 1) + ".";
}

/// The family of a checkpoint's module. DeepSeek-V3 and later models store the module as a layer after the
/// last one: "model.layers.N.", which `behind` names. Fails if there is no module, or a second one.
expected<mtp_dialect> dialect_of(const std::filesystem::path& directory, const std::string& behind) {
  const auto tensors = open_head_files(directory);
  if (!tensors) return tensors.error();
  const auto first_with = [&](std::string_view prefix) {
    const auto found = std::ranges::find_if(
        *tensors, [&](const auto& one) { return name_alone(one.name).starts_with(prefix); });
    return found == tensors->end() ? std::string() : found->name;
  };
  const auto checked = [&](const mtp_dialect& one) -> expected<mtp_dialect> {
    const std::string first(one.prefix == mtp_prefix ? "mtp.layers.0." : one.prefix);
    const std::string second = first_with(next_module(first));
    if (second.empty()) return one;
    return error(errc::unsupported,
                 directory.string() + ": tensor " + quote(second) + " is of a second module; heads have one");
  };
  for (const mtp_dialect& one : dialects)
    if (!first_with(one.prefix).empty()) return checked(one);
  if (!first_with(behind).empty()) return checked({behind, &mtp_part::deepseek, false, false, 0});
  return error(errc::invalid_file, directory.string() +
                                       ": no tensor 'mtp.*', 'mtp_layers.0.*', "
                                       "'model.mtp_layers.0.*' or " +
                                       quote(behind + "*"));
}

/// Refuses settings that are not supported in any family.
void refuse_unsupported_mtp(const json_node& root) {
  for (const char* const part : {"", "text_config", "transformer_layer_config"}) {
    const json_node fields = *part == '\0' ? root : root[part];
    if (fields["mtp_use_dedicated_embeddings"].flag_or(false))
      fields["mtp_use_dedicated_embeddings"].refuse("must be false", errc::unsupported);
    for (const char* const count : {"num_nextn_predict_layers", "mtp_num_hidden_layers"})
      if (fields[count].uint_or(1) > 1)
        fields[count].refuse("is " + std::to_string(fields[count].uint()) + "; heads have one module",
                             errc::unsupported);
  }
}

/// Takes DeepSeek's embedding and LM head. They are usually copies of those of the base model, which the
/// target has.
void take_ends(head_tensors& tensors, const eagle_config& config, const mtp_dialect& dialect,
               eagle_weights& weights) {
  const std::string embedding = "embed_tokens.weight", lm_head = "shared_head.head.weight";
  const std::string of_base(dialect.base_embedding), lm_head_of_base(dialect.base_lm_head);
  const std::string& head_of_base = tensors.has_beside(lm_head_of_base) ? lm_head_of_base : of_base;
  const std::uint32_t width = config.layer.hidden_size;
  if (tensors.has(embedding) && !tensors.ignore_copy(embedding, of_base))
    weights.embedding = tensors.matrix(embedding, config.vocab_size, width);
  if (tensors.has(lm_head) && !tensors.ignore_copy(lm_head, head_of_base))
    weights.lm_head = tensors.matrix(lm_head, config.layer.vocab_size, width);
}

void take_module(head_tensors& tensors, const eagle_config& config, const mtp_dialect& dialect,
                 const transformer& target, eagle_weights& weights) {
  const std::uint32_t width = config.layer.hidden_size;
  const std::string queries = "layers.0.self_attn.q_proj.weight";
  const bool is_gated =
      dialect.is_gated || tensors.num_rows(queries) == std::uint64_t{2} * config.layer.q_size();
  // A layer with an output gate is that of Qwen3-Next. Directories store its norms less one, whatever their
  // names are.
  tensors.set_norm_offset(is_gated && !dialect.is_gguf ? 1 : dialect.norm_offset);
  weights.layers.resize(1);
  weights.fc = tensors.matrix("fc.weight", width, 2 * std::uint64_t{width});
  tensors.vector("embedding_norm.weight", width, weights.embedding_norm);
  tensors.vector("layers.0.hidden_norm.weight", width, weights.feature_norm);
  if (dialect.is_gguf && !tensors.has("norm.weight"))
    weights.output_norm = target.weights().output_norm;
  else
    tensors.vector("norm.weight", width, weights.output_norm);
  for (const std::string name : {"input_layernorm", "self_attn.q_norm", "self_attn.k_norm"})
    if ((dialect.is_gated || name == "input_layernorm") && !tensors.has("layers.0." + name + ".weight"))
      tensors.refuse_missing("layers.0." + name + ".weight");
  tensors.layer("layers.0.", config.layer, width, weights.layers[0], is_gated);
  const tensor_naming naming = dialect.is_gguf ? tensor_naming::gguf : tensor_naming::hugging_face;
  if (config.layer.num_expert_layers() != 0)
    tensors.mixture("layers.0.", naming, config.layer, weights.layers[0]);
  take_ends(tensors, config, dialect, weights);
}

expected<std::shared_ptr<const draft_head>> take_head(head_tensors& tensors, eagle_config config,
                                                      const mtp_dialect& dialect,
                                                      std::shared_ptr<const transformer> target,
                                                      const head_load_options& options,
                                                      device::buffer_memory& buffers) {
  tensors.set_file_names([&](std::string_view own) { return name_in_module(own, dialect); });
  auto weights = std::make_unique<eagle_weights>();
  take_module(tensors, config, dialect, *target, *weights);
  auto vectors = tensors.upload(buffers);
  if (!vectors) return std::move(vectors).error();
  weights->vectors = *std::move(vectors);
  return std::shared_ptr<const draft_head>(
      std::make_shared<eagle_head>(std::move(config), std::move(weights), std::move(target),
                                   std::vector<token_id>{}, options.kv_type, buffers));
}

expected<std::shared_ptr<const draft_head>> load_gguf_mtp(const std::filesystem::path& path,
                                                          std::shared_ptr<const transformer> target,
                                                          const head_load_options& options,
                                                          device::weight_memory& memory,
                                                          device::buffer_memory& buffers) {
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  const auto layer = gguf_mtp_layer(*file);
  if (!layer) return layer.error();
  auto config = read_mtp_config(*file, facts_of(*target), options.overrides);
  if (!config) return std::move(config).error();
  const std::string prefix = "blk." + std::to_string(*layer) + ".";
  const auto name_of = [&](std::string_view name) { return name_of_mtp_tensor(name, prefix); };
  auto tensors = head_tensors::of(tensors_of(*file), path, name_of, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  return take_head(*tensors, *std::move(config), gguf_dialect(prefix), std::move(target), options, buffers);
}

expected<std::shared_ptr<const draft_head>> load_mtp_directory(const std::filesystem::path& directory,
                                                               std::shared_ptr<const transformer> target,
                                                               const head_load_options& options,
                                                               device::weight_memory& memory,
                                                               device::buffer_memory& buffers) {

  const model_info& of = target->info();
  const std::string behind = "model.layers." + std::to_string(of.num_layers) + ".";
  const auto dialect = dialect_of(directory, behind);
  if (!dialect) return dialect.error();
  const auto config_path = directory / "config.json";
  auto object = read_json_file(config_path);
  if (!object) return std::move(object).error();
  const auto name_of = [&](std::string_view name) {
    const std::string own = name_alone(name);
    return own.starts_with(dialect->prefix) ? renamed_tensor(own.substr(dialect->prefix.size()))
                                            : std::string();
  };
  auto tensors = head_tensors::open(directory, name_of, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  tensors->set_norm_offset(dialect->norm_offset);
  std::optional<error> failure;
  refuse_unsupported_mtp(json_node(*object, config_path.string(), failure, json_node::naming::key));
  if (failure) return *failure;
  const bool has_experts =
      tensors->has("layers.0.mlp.gate.weight") || tensors->has_any("layers.0.mlp.experts.", "");
  auto config = read_eagle_config(*object, config_path.string(), eagle_version::eagle,
                                  {.has_experts = has_experts}, facts_of(*target), options.overrides);
  if (!config) return std::move(config).error();
  config->name = "mtp";
  config->hidden_first = options.overrides.hidden_first.value_or(dialect->hidden_first);
  config->norm_output = dialect->norm_output;
  return take_head(*tensors, *std::move(config), *dialect, std::move(target), options, buffers);
}

} // namespace

expected<std::shared_ptr<const draft_head>> load_mtp_head(const std::filesystem::path& path,
                                                          std::shared_ptr<const transformer> target,
                                                          const head_load_options& options,
                                                          device::weight_memory& memory,
                                                          device::buffer_memory& buffers) try {
  const auto& load = is_gguf_head(path) ? load_gguf_mtp : load_mtp_directory;
  return load(path, std::move(target), options, memory, buffers);
} catch (const std::bad_alloc&) {
  return error(errc::resource_exhausted, path.string() + ": not enough memory");
}

} // namespace paceline::model
