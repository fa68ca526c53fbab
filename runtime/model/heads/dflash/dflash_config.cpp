#include "runtime/model/heads/dflash/dflash_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/files/layer_fields.hpp"
#include "runtime/model/loader/families/layer_types.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

/// Where a config keeps its fields. Those of the head are at the top level or in "dflash_config". Those of
/// its layers are at the top level or in "transformer_layer_config".
struct dflash_fields {
  json_node root, nested, layer;
  bool of_speculators;

  json_node operator[](std::string_view key) const { return nested[key] ? nested[key] : root[key]; }
};

dflash_fields fields_of(const json_node& root) {
  const json_node layer = root["transformer_layer_config"];
  if (layer) layer.require_object();
  return {root, root["dflash_config"], layer ? layer : root,
          static_cast<bool>(root["speculators_model_type"])};
}

bool has_architecture(const json_node& root, std::string_view part) {
  const json_node names = root["architectures"];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].is_string() && names[i].string().find(part) != std::string::npos) return true;
  return false;
}

/// Refuses other networks that were published under the same names.
void refuse_others(const dflash_fields& fields) {
  constexpr std::array of_dflash2{"selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"};
  for (const char* const key : of_dflash2)
    if (fields[key]) fields[key].refuse("is of DFlash2, which is not supported", errc::unsupported);
  const std::string family = fields.root["speculators_model_type"].string_or("dflash");
  if (family != "dflash" && family != "dspark")
    fields.root["speculators_model_type"].refuse("is " + quote(family) + ", must be 'dflash' or 'dspark'",
                                                 errc::unsupported);
  const std::string projector = fields["projector_type"].string_or("dflash");
  if (projector != "dflash" && projector != "dspark")
    fields["projector_type"].refuse("is " + quote(projector) + ", must be 'dflash' or 'dspark'",
                                    errc::unsupported);
  if (fields["output_multiplier"].setting_or(1) != 1)
    fields["output_multiplier"].refuse("must be 1", errc::unsupported);
  if (fields.nested["final_logit_softcapping"].setting_or(0) != 0)
    fields.nested["final_logit_softcapping"].refuse("must be 0", errc::unsupported);
}

/// round(1 + i (N - 4) / (n - 1)) for i = 0 .. n - 1, halves to even; N / 2 for one layer.
std::vector<layer_index> usual_taps(std::uint32_t num_layers, std::uint32_t num_target_layers) {
  if (num_target_layers < 5) return {};
  if (num_layers == 1) return {layer_index{num_target_layers / 2}};
  std::vector<layer_index> taps;
  for (std::uint32_t i = 0; i < num_layers; ++i)
    taps.push_back(layer_index{static_cast<std::uint32_t>(
        std::nearbyint(1 + double{1} * i * (num_target_layers - 4) / (num_layers - 1)))});
  return taps;
}

void read_taps(const dflash_fields& fields, dflash_config& config, const std::optional<head_target>& target,
               const head_overrides& overrides) {
  const json_node counted = fields.root["num_target_layers"];
  if (target && counted && counted.uint() != target->num_layers)
    counted.refuse("is " + std::to_string(counted.uint()) + ", the target has " +
                   std::to_string(target->num_layers) + " layers");
  const std::uint32_t num_layers = target ? target->num_layers : most_layers;
  if (!overrides.taps.empty())
    config.taps = overrides.taps;
  else if (const json_node ids = fields["target_layer_ids"])
    read_tap_ids(ids, id_convention::output_of, num_layers, config.taps);
  else if (const json_node aux = fields.root["aux_hidden_state_layer_ids"])
    read_tap_ids(aux, id_convention::input_of, num_layers, config.taps);
  else if (target)
    config.taps = usual_taps(config.layer.num_layers, num_layers);
  if (target && config.taps.empty())
    fields["target_layer_ids"].refuse("must name layers of the target, which has " +
                                      std::to_string(num_layers));
}

/// DSpark's slots predict the token after them unless the config says otherwise, because DeepSpec, SpecForge
/// and speculators train them this way.
bool is_dspark(const dflash_fields& fields, const dflash_config& config) {
  if (const json_node family = fields.root["speculators_model_type"]) return family.string() == "dspark";
  return config.markov_rank > 0 || fields["projector_type"].string_or("") == "dspark" ||
         has_architecture(fields.root, "DSpark");
}

void read_block(const dflash_fields& fields, dflash_config& config, const head_overrides& overrides) {
  config.block_size = fields["block_size"].uint_or(fields.of_speculators ? 8 : 16);
  const bool shifted = fields["shift_label"].flag_or(is_dspark(fields, config));
  config.predicts_next = overrides.predicts_next.value_or(fields["sample_from_anchor"].flag_or(shifted));
  if (fields.of_speculators && config.markov == markov_kind::rnn && !config.predicts_next)
    fields["markov_head_type"].refuse("is 'rnn', whose state begins at a slot that gives no token: "
                                      "sample_from_anchor must be true",
                                      errc::unsupported);
  if (const std::string rule = rule_of_block(config); !rule.empty()) fields["block_size"].refuse(rule);
  config.mask_token = token_id{static_cast<std::int32_t>(fields["mask_token_id"].uint_below(1U << 31))};
}

/// z-lab's heads call the target's embedding, which includes its factor. SpecForge's heads, which have a
/// projector_type, read the rows of the embedding without the factor.
void read_embedding_scale(const dflash_fields& fields, dflash_config& config, const dflash_tensors& tensors,
                          const std::optional<head_target>& target) {
  const bool calls_targets = target && !tensors.has_embedding && fields.nested && !fields["projector_type"];
  config.embedding_scale = static_cast<float>(
      fields["input_embedding_scale"].setting_or(calls_targets ? target->embedding_scale : 1));
}

/// Reads which layers have a window.
void read_windowed_layers(const dflash_fields& fields, std::vector<bool>& has_window) {
  for (const char* const key : {"use_swa", "attention_sink_bias"})
    if (fields[key].flag_or(false)) fields[key].refuse("must be false", errc::unsupported);
  const json_node types = fields.layer["layer_types"], windows = fields.layer["use_sliding_window"];
  if (!types && windows.flag_or(false))
    windows.refuse("is true, and layer_types does not say of which layers", errc::unsupported);
  if (types)
    has_window = layers_of_type(types, static_cast<std::uint32_t>(has_window.size()), "sliding_attention");
}

/// Reads the window, and what slots see of their block. A field for all layers has precedence: first
/// `is_causal`, then `causal` of "dflash_config", as in vLLM. Without such a field, only the layers with a
/// window are causal.
void read_window(const dflash_fields& fields, dflash_config& config) {
  config.has_window.assign(config.layer.num_layers, false);
  read_windowed_layers(fields, config.has_window);
  const json_node causal = fields.layer["is_causal"] ? fields.layer["is_causal"] : fields.nested["causal"];
  if (causal.flag_or(false) && std::ranges::find(config.has_window, false) != config.has_window.end())
    causal.refuse("must be false: layers of full attention see the whole block", errc::unsupported);
  if (std::ranges::find(config.has_window, true) == config.has_window.end()) return;
  block_window& window = config.window;
  window.ends_at_slot = !fields.of_speculators;
  window.is_causal =
      fields.of_speculators ? !fields.root["sliding_window_non_causal"].flag_or(false) : causal.flag_or(true);
  window.size = fields.layer["sliding_window"].uint();
  if (const std::string rule = rule_of_window(config); !rule.empty())
    fields.layer["sliding_window"].refuse(rule);
}

void read_markov(const dflash_fields& fields, dflash_config& config, const dflash_tensors& tensors) {
  config.markov_rank = fields["markov_rank"].uint_or(tensors.markov_rank);
  config.has_confidence = fields["enable_confidence_head"].flag_or(tensors.confidence_width > 0);
  const bool reads_more = tensors.confidence_width > config.layer.hidden_size;
  config.confidence_reads_token = config.has_confidence && config.markov_rank > 0 &&
                                  fields["confidence_head_with_markov"].flag_or(reads_more);
  if (config.markov_rank == 0) return;
  const std::string kind = fields["markov_head_type"].string_or("vanilla");
  if (kind == "vanilla")
    config.markov = markov_kind::vanilla;
  else if (kind == "gated")
    config.markov = markov_kind::gated;
  else if (kind == "rnn")
    config.markov = markov_kind::rnn;
  else
    fields["markov_head_type"].refuse("is " + quote(kind) + ", must be 'vanilla', 'gated' or 'rnn'",
                                      errc::unsupported);
  if (config.name != "dspark")
    fields["markov_rank"].refuse("is " + std::to_string(config.markov_rank) +
                                 ": a head with a Markov head is of kind dspark");
}

void check_sizes(const dflash_fields& fields, const dflash_config& config,
                 const std::optional<head_target>& target) {
  const auto must_be_targets = [&](const json_node& field, std::uint32_t value) {
    if (target && value != target->hidden_size)
      field.refuse("is " + std::to_string(value) + ", the target's hidden size is " +
                   std::to_string(target->hidden_size));
  };
  must_be_targets(fields.layer["hidden_size"], config.layer.hidden_size);
  must_be_targets(fields.root["target_hidden_size"],
                  fields.root["target_hidden_size"].uint_or(config.layer.hidden_size));
  if (config.layer.vocab_size > config.vocab_size)
    fields["draft_vocab_size"].refuse("is " + std::to_string(config.layer.vocab_size) + ", vocab_size is " +
                                      std::to_string(config.vocab_size));
}

} // namespace

std::string rule_of_block(const dflash_config& config) {
  const std::uint32_t least = config.predicts_next ? 1 : 2;
  if (config.block_size >= least && config.num_levels() <= head_traits::token_limit) return "";
  return "is " + std::to_string(config.block_size) + ", must be " + std::to_string(least) + " to " +
         std::to_string(head_traits::token_limit);
}

std::string rule_of_window(const dflash_config& config) {
  const block_window& window = config.window;
  const std::uint32_t least = window.ends_at_slot && !window.is_causal ? config.block_size : 1;
  constexpr std::uint32_t most = 1U << 30;
  if (window.size >= least && window.size <= most) return "";
  return "is " + std::to_string(window.size) + ", must be " + std::to_string(least) + " to " +
         std::to_string(most);
}

expected<dflash_config> read_dflash_config(const boost::json::object& object, const std::string& file,
                                           const std::string& name, const dflash_tensors& tensors,
                                           const std::optional<head_target>& target,
                                           const head_overrides& overrides) {
  std::optional<error> failure;
  const json_node root(object, file, failure, json_node::naming::key);
  const dflash_fields fields = fields_of(root);
  dflash_config config;
  config.name = name;
  refuse_others(fields);
  read_layer_sizes(fields.layer, config.layer);
  config.layer.num_layers = tensors.num_layers;
  config.layer.local_layers.assign(tensors.num_layers, false);
  read_layer_rope(fields.layer, overrides.rope_theta, config.layer);
  config.vocab_size = fields.layer["vocab_size"].uint_or(target ? target->vocab_size : 0);
  config.layer.vocab_size = root["draft_vocab_size"].uint_or(config.vocab_size);
  read_markov(fields, config, tensors);
  read_block(fields, config, overrides);
  read_embedding_scale(fields, config, tensors, target);
  read_taps(fields, config, target, overrides);
  read_window(fields, config);
  if (failure) return *failure;
  check_sizes(fields, config, target);
  if (failure) return *failure;
  if (auto ok = validate(config.layer); !ok) return std::move(ok).error().within(file);
  if (config.layer.head_dim > device::max_head_dim)
    fields.layer["head_dim"].refuse("is above " + std::to_string(device::max_head_dim), errc::unsupported);
  if (failure) return *failure;
  return config;
}

} // namespace paceline::model
