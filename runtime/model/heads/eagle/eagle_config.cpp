#include "runtime/model/heads/eagle/eagle_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/files/layer_fields.hpp"
#include "runtime/model/loader/hugging_face/hf_config.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

/// The inputs of layers 2, N/2 and N - 3, as in the published EAGLE-3 heads.
std::vector<layer_index> default_taps(std::uint32_t num_layers) {
  if (num_layers < 5) return {};
  return {layer_index{1}, layer_index{num_layers / 2 - 1}, layer_index{num_layers - 4}};
}

void read_taps(const json_node& fields, eagle_config& config, const std::optional<head_target>& target) {
  const json_node nested = fields["eagle_config"]["eagle_aux_hidden_state_layer_ids"];
  // An empty list means the default.
  const auto names_layers = [](const json_node& ids) { return ids && ids.size() > 0; };
  const std::uint32_t num_layers = target ? target->num_layers : most_layers;
  if (config.version == eagle_version::eagle)
    config.taps = target ? std::vector{layer_index{target->num_layers}} : std::vector<layer_index>{};
  else if (const json_node ids = fields["target_layer_ids"])
    read_tap_ids(ids, id_convention::output_of, num_layers, config.taps);
  else if (names_layers(nested))
    read_tap_ids(nested, id_convention::output_of, num_layers, config.taps);
  else if (const json_node aux = fields["eagle_aux_hidden_state_layer_ids"]; names_layers(aux))
    read_tap_ids(aux, id_convention::input_of, num_layers, config.taps);
  else if (target)
    config.taps = default_taps(num_layers);
  if (target && config.taps.empty())
    fields["eagle_aux_hidden_state_layer_ids"].refuse("must name layers of the target, which has " +
                                                      std::to_string(target->num_layers));
}

void refuse_unsupported(const json_node& root) {
  if (!root["eagle_config"]["use_aux_hidden_state"].flag_or(true))
    root["eagle_config"]["use_aux_hidden_state"].refuse("must be true", errc::unsupported);
  if (root["eagle_config"]["parallel_draft_step"].uint_or(1) > 1)
    root["eagle_config"]["parallel_draft_step"].refuse("must be 1: parallel drafting is not supported",
                                                       errc::unsupported);
}

/// Reads which layers see only the last positions. A config of speculators lists them in "layer_types".
void read_windows(const json_node& layer, model_config& sizes) {
  const json_node types = layer["layer_types"];
  sizes.local_layers.assign(sizes.num_layers, false);
  for (std::size_t l = 0; l < std::min<std::size_t>(types.size(), sizes.num_layers); ++l)
    sizes.local_layers[l] = types[l].string() == "sliding_attention";
  if (std::ranges::find(sizes.local_layers, true) == sizes.local_layers.end()) return;
  sizes.sliding_window = layer["sliding_window"].uint();
  if (sizes.sliding_window == 0) layer["sliding_window"].refuse("must be above 0");
}

/// The number of levels that P-EAGLE was trained for; null if the config does not say.
json_node trained_levels(const json_node& root) {
  for (const char* const key : {"para_depths", "num_depths"})
    if (root[key]) return root[key];
  return root["speculators_config"]["proposal_methods"][0]["speculative_tokens"];
}

/// P-EAGLE. speculators names the mask token mask_token_id, and named it ptd_token_id before. vLLM reads
/// pard_token.
void read_masked_features(const json_node& root, eagle_config& config) {
  const json_node trained = trained_levels(root);
  for (const char* const key : {"mask_token_id", "pard_token", "ptd_token_id"}) {
    const json_node token = root[key];
    if (!token) continue;
    const std::uint32_t id = token.uint(), depths = trained.uint_or(head_traits::token_limit);
    if (id >= config.vocab_size)
      token.refuse("is " + std::to_string(id) + ", vocab_size is " + std::to_string(config.vocab_size));
    if (depths == 0 || depths > head_traits::token_limit)
      trained.refuse("is " + std::to_string(depths) + ", must be 1 to " +
                     std::to_string(head_traits::token_limit));
    config.mask_token = token_id{static_cast<std::int32_t>(id)};
    config.num_mask_rows = depths - 1;
    return;
  }
  root["mask_token_id"].refuse("is missing, and so are pard_token and ptd_token_id: mask rows need a token");
}

/// DART. The config says how many mask rows there are.
void read_masked_inputs(const json_node& root, eagle_config& config) {
  config.norms_twice = true;
  config.num_mask_rows = root["draft_length"].uint();
  if (config.num_mask_rows >= head_traits::token_limit)
    root["draft_length"].refuse("is " + std::to_string(config.num_mask_rows) + ", at most " +
                                std::to_string(head_traits::token_limit - 1));
}

void read_sizes(const json_node& root, const json_node& layer, eagle_config& config) {
  model_config& sizes = config.layer;
  read_layer_sizes(layer, sizes);
  const auto usual = hf_mtp_defaults(layer["model_type"].string_or(""));
  config.vocab_size =
      usual ? layer["vocab_size"].uint_or(usual->sizes.vocab_size) : layer["vocab_size"].uint();
  sizes.vocab_size = config.version == eagle_version::eagle3
                         ? root["draft_vocab_size"].uint_or(config.vocab_size)
                         : config.vocab_size;
  config.target_hidden_size = root["target_hidden_size"].uint_or(sizes.hidden_size);
}

void check_sizes(const json_node& root, const eagle_config& config) {
  if (config.version == eagle_version::eagle && config.target_hidden_size != config.layer.hidden_size)
    root["target_hidden_size"].refuse("is " + std::to_string(config.target_hidden_size) +
                                      ", hidden_size is " + std::to_string(config.layer.hidden_size));
  if (config.layer.vocab_size > config.vocab_size)
    root["draft_vocab_size"].refuse("is " + std::to_string(config.layer.vocab_size) + ", vocab_size is " +
                                    std::to_string(config.vocab_size));
}

void check_target(const json_node& root, const json_node& layer, const eagle_config& config,
                  const head_target& target) {
  if (config.target_hidden_size != target.hidden_size)
    (root["target_hidden_size"] ? root["target_hidden_size"] : layer["hidden_size"])
        .refuse("is " + std::to_string(config.target_hidden_size) + ", the target's hidden size is " +
                std::to_string(target.hidden_size));
  if (config.vocab_size > target.vocab_size)
    layer["vocab_size"].refuse("is " + std::to_string(config.vocab_size) + ", the target's is " +
                               std::to_string(target.vocab_size));
}

} // namespace

expected<eagle_config> read_eagle_config(const boost::json::object& object, const std::string& file,
                                         eagle_version version, const eagle_tensors& tensors,
                                         const std::optional<head_target>& target,
                                         const head_overrides& overrides) {
  std::optional<error> failure;
  const json_node root(object, file, failure, json_node::naming::key);
  const bool is_multimodal = root["text_config"] && !root["hidden_size"];
  const json_node nested = root[is_multimodal ? "text_config" : "transformer_layer_config"];
  if (nested) nested.require_object();
  const json_node& layer = nested ? nested : root;
  eagle_config config;
  config.version = version;
  const bool is_peagle = root["speculators_model_type"].string_or("") == "peagle";
  config.masks = is_peagle ? mask_rows::feature : tensors.masks;
  if (is_peagle && version != eagle_version::eagle3)
    root["speculators_model_type"].refuse("is 'peagle': such a head is of kind eagle3");
  config.name = version != eagle_version::eagle3             ? "eagle"
                : config.masks == mask_rows::attention_input ? "dart"
                                                             : "eagle3";
  refuse_unsupported(root);
  config.layer.num_layers = tensors.num_layers;
  if (tensors.has_experts) read_layer_experts(layer, config.layer);
  read_sizes(root, layer, config);
  read_windows(layer, config.layer);
  read_layer_rope(layer, overrides.rope_theta, config.layer);
  config.norm_before_residual = root["norm_before_residual"].flag_or(false);
  config.norm_output = root["norm_output"].flag_or(false);
  config.has_tap_norms = root["fc_norm"].flag_or(false);
  config.has_input_norm = root["norm_before_fc"].flag_or(false);
  config.ties_lm_head = version == eagle_version::eagle3 && root["tie_word_embeddings"].flag_or(false);
  if (config.masks == mask_rows::feature) read_masked_features(root, config);
  if (config.masks == mask_rows::attention_input) read_masked_inputs(root, config);
  if (overrides.taps.empty())
    read_taps(root, config, target);
  else
    config.taps = overrides.taps;
  if (failure) return *failure;
  check_sizes(root, config);
  if (target) check_target(root, layer, config, *target);
  if (failure) return *failure;
  if (auto ok = validate(config.layer); !ok) return std::move(ok).error().within(file);
  if (config.layer.head_dim > device::max_head_dim)
    layer["head_dim"].refuse("is above " + std::to_string(device::max_head_dim), errc::unsupported);
  if (failure) return *failure;
  return config;
}

} // namespace paceline::model
