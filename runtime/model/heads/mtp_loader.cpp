#include "runtime/model/heads/eagle_head.hpp"
#include "runtime/model/heads/head_loader.hpp"
#include "runtime/model/heads/head_tensors.hpp"
#include "runtime/model/loader/hf_directory.hpp"
#include "runtime/model/loader/json_text.hpp"

#include <array>
#include <new>
#include <string>
#include <utility>

namespace paceline::model {

namespace {

/// How a family stores its module.
struct mtp_dialect {
  std::string_view prefix;
  bool hidden_first; ///< order of the concatenation
  bool norm_output;  ///< what is fed back has been through the final norm
  float norm_offset; ///< added to norms in the file
};

constexpr std::array<mtp_dialect, 3> dialects = {{
    {"model.mtp_layers.0.", true, true, 0}, // MiMo
    {"mtp_layers.0.", false, true, 0},      // speculators
    {"mtp.", false, true, 1},               // Qwen3-Next, Qwen3.5
}};

/// The dialects' names beside those of an ordinary layer, which are "layers.0.".
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> renamed = {{
    {"token_layernorm.", "embedding_norm."},
    {"pre_fc_norm_embedding.", "embedding_norm."},
    {"enorm.", "embedding_norm."},
    {"hidden_layernorm.", "layers.0.hidden_norm."},
    {"pre_fc_norm_hidden.", "layers.0.hidden_norm."},
    {"hnorm.", "layers.0.hidden_norm."},
    {"input_proj.", "fc."},
    {"eh_proj.", "fc."},
    {"final_layernorm.", "norm."},
    {"shared_head.norm.", "norm."},
}};

std::string renamed_tensor(std::string_view name) {
  for (const auto& [from, to] : renamed)
    if (name.starts_with(from)) return std::string(to) + std::string(name.substr(from.size()));
  if (name.starts_with("fc.") || name.starts_with("norm.") || name.starts_with("layers.0."))
    return std::string(name);
  if (name == "shared_head.head.weight" || name == "embed_tokens.weight") return ""; // copies of the target's
  return "layers.0." + std::string(name);
}

/// DeepSeek-V3 and those after it store the module as a layer behind the last one: "model.layers.N.".
expected<mtp_dialect> dialect_of(const std::filesystem::path& directory, const std::string& behind) {
  const auto files = open_weight_files(directory);
  if (!files) return files.error();
  const auto has = [&](std::string_view prefix) {
    for (const safetensors_file& file : *files)
      for (const safetensors_tensor& tensor : file.tensors())
        if (tensor.name.starts_with(prefix)) return true;
    return false;
  };
  for (const mtp_dialect& one : dialects)
    if (has(one.prefix)) return one;
  if (has(behind)) return mtp_dialect{behind, false, false, 0};
  return error(errc::invalid_file, directory.string() +
                                       ": no tensor \"mtp.*\", \"mtp_layers.0.*\", "
                                       "\"model.mtp_layers.0.*\" or \"" +
                                       behind + "*\"");
}

} // namespace

expected<std::shared_ptr<const draft_head>> load_mtp_head(const std::filesystem::path& directory,
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
    return name.starts_with(dialect->prefix) ? renamed_tensor(name.substr(dialect->prefix.size()))
                                             : std::string();
  };
  auto tensors = head_tensors::open(directory, name_of, memory, options.format);
  if (!tensors) return std::move(tensors).error();
  tensors->set_norm_offset(dialect->norm_offset);
  auto config = read_eagle_config(*object, config_path.string(), eagle_version::eagle, mask_rows::none, 1,
                                  {of.num_layers, of.hidden_size, of.vocab_size}, options.overrides);
  if (!config) return std::move(config).error();
  if (const auto* own = object->if_contains("mtp_use_dedicated_embeddings");
      own && own->is_bool() && own->get_bool())
    return error(errc::unsupported,
                 config_path.string() + ": key 'mtp_use_dedicated_embeddings' must be false");
  config->name = "mtp";
  config->hidden_first = options.overrides.hidden_first.value_or(dialect->hidden_first);
  config->norm_output = dialect->norm_output;
  const std::uint32_t width = config->layer.hidden_size;
  try {
    // A layer with an output gate is Qwen3-Next's, whose norms are stored less one under every name.
    const std::uint64_t gated_rows = std::uint64_t{2} * config->layer.q_size();
    if (tensors->num_rows("layers.0.self_attn.q_proj.weight") == gated_rows) tensors->set_norm_offset(1);
    auto weights = std::make_unique<eagle_weights>();
    weights->layers.resize(1);
    weights->fc = tensors->matrix("fc.weight", width, 2 * std::uint64_t{width});
    tensors->vector("embedding_norm.weight", width, weights->embedding_norm);
    tensors->vector("layers.0.hidden_norm.weight", width, weights->feature_norm);
    tensors->vector("norm.weight", width, weights->output_norm);
    if (!tensors->has("layers.0.input_layernorm.weight"))
      tensors->refuse("layers.0.input_layernorm.weight", "is missing");
    tensors->layer("layers.0.", config->layer, width, weights->layers[0], true);
    auto vectors = tensors->upload(buffers);
    if (!vectors) return std::move(vectors).error();
    weights->vectors = *std::move(vectors);
    return std::shared_ptr<const draft_head>(
        std::make_shared<eagle_head>(*std::move(config), std::move(weights), std::move(target),
                                     std::vector<token_id>{}, options.kv_type, buffers));
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, directory.string() + ": not enough memory");
  }
}

} // namespace paceline::model
