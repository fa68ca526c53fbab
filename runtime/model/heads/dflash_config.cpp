#include "runtime/model/heads/dflash_config.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/device/op_kv.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/layer_fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

/// A config's places: fields of the head lie at the top level or in "dflash_config", those of its layers at
/// the top level or in "transformer_layer_config".
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

/// Other networks that were published under the same names.
void refuse_others(const dflash_fields& fields) {
  constexpr std::array of_dflash2{"selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"};
  for (const char* const key : of_dflash2)
    if (fields[key]) fields[key].refuse("is of DFlash2, which is not supported", errc::unsupported);
  const std::string family = fields.root["speculators_model_type"].string_or("dflash");
  if (family != "dflash" && family != "dspark")
    fields.root["speculators_model_type"].refuse("is '" + family + "', must be 'dflash' or 'dspark'",
                                                 errc::unsupported);
  const std::string projector = fields["projector_type"].string_or("dflash");
  if (projector != "dflash" && projector != "dspark")
    fields["projector_type"].refuse("is '" + projector + "', must be 'dflash' or 'dspark'",
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

void read_taps(const dflash_fields& fields, dflash_config& config, const head_target& target,
               const head_overrides& overrides) {
  const json_node counted = fields.root["num_target_layers"];
  if (counted && counted.uint() != target.num_layers)
    counted.refuse("is " + std::to_string(counted.uint()) + ", the target has " +
                   std::to_string(target.num_layers) + " layers");
  if (!overrides.taps.empty())
    config.taps = overrides.taps;
  else if (const json_node ids = fields["target_layer_ids"])
    read_tap_ids(ids, id_convention::output_of, target.num_layers, config.taps);
  else if (const json_node aux = fields.root["aux_hidden_state_layer_ids"])
    read_tap_ids(aux, id_convention::input_of, target.num_layers, config.taps);
  else
    config.taps = usual_taps(config.layer.num_layers, target.num_layers);
  if (config.taps.empty())
    fields["target_layer_ids"].refuse("must name layers of the target, which has " +
                                      std::to_string(target.num_layers));
}

void read_block(const dflash_fields& fields, dflash_config& config, const head_overrides& overrides) {
  config.block_size = fields["block_size"].uint_or(fields.of_speculators ? 8 : 16);
  const bool is_dspark_of_speculators = fields.root["speculators_model_type"].string_or("") == "dspark";
  const bool usual = has_architecture(fields.root, "DSparkModel") || is_dspark_of_speculators;
  const bool shifted = fields.root["shift_label"].flag_or(usual);
  config.predicts_next = overrides.predicts_next.value_or(fields.root["sample_from_anchor"].flag_or(shifted));
  const std::uint32_t least = config.predicts_next ? 1 : 2;
  if (config.block_size < least || config.num_levels() > head_traits::token_limit)
    fields["block_size"].refuse("is " + std::to_string(config.block_size) + ", must be " +
                                std::to_string(least) + " to " + std::to_string(head_traits::token_limit));
  config.mask_token = token_id{static_cast<std::int32_t>(fields["mask_token_id"].uint_below(1U << 31))};
  config.embedding_scale = static_cast<float>(fields["input_embedding_scale"].setting_or(1));
}

/// Which layers have a window, and which one.
void read_window(const dflash_fields& fields, dflash_config& config) {
  config.has_window.assign(config.layer.num_layers, false);
  const json_node causal = fields.layer["is_causal"];
  if (causal.flag_or(false)) causal.refuse("must be false", errc::unsupported);
  const json_node types = fields.layer["layer_types"];
  bool has_any = false;
  for (std::size_t l = 0; l < std::min(types.size(), config.has_window.size()); ++l) {
    const std::string type = types[l].string();
    if (type != "full_attention" && type != "sliding_attention")
      types[l].refuse("must be 'full_attention' or 'sliding_attention'", errc::unsupported);
    config.has_window[l] = type == "sliding_attention";
    has_any = has_any || config.has_window[l];
  }
  if (!has_any) return;
  block_window& window = config.window;
  window.ends_at_slot = !fields.of_speculators;
  window.is_causal =
      fields.of_speculators ? !fields.root["sliding_window_non_causal"].flag_or(false) : !causal;
  window.size = fields.layer["sliding_window"].uint();
  const std::uint32_t least = window.ends_at_slot && !window.is_causal ? config.block_size : 1;
  if (window.size < least || window.size > 1U << 30)
    fields.layer["sliding_window"].refuse("is " + std::to_string(window.size) + ", must be at least " +
                                          std::to_string(least));
}

void read_markov(const dflash_fields& fields, dflash_config& config) {
  config.markov_rank = fields["markov_rank"].uint_or(0);
  config.has_confidence = fields["enable_confidence_head"].flag_or(false);
  config.confidence_reads_token =
      config.has_confidence && config.markov_rank > 0 && fields["confidence_head_with_markov"].flag_or(false);
  if (config.markov_rank == 0) return;
  const std::string kind = fields["markov_head_type"].string_or("vanilla");
  if (kind == "vanilla")
    config.markov = markov_kind::vanilla;
  else if (kind == "gated")
    config.markov = markov_kind::gated;
  else if (kind == "rnn")
    config.markov = markov_kind::rnn;
  else
    fields["markov_head_type"].refuse("is '" + kind + "', must be 'vanilla', 'gated' or 'rnn'",
                                      errc::unsupported);
  if (config.name != "dspark")
    fields["markov_rank"].refuse("is " + std::to_string(config.markov_rank) +
                                 ": a head with a Markov head is of kind dspark");
}

void check_sizes(const dflash_fields& fields, const dflash_config& config, const head_target& target) {
  const auto must_be_targets = [&](const json_node& field, std::uint32_t value) {
    if (value != target.hidden_size)
      field.refuse("is " + std::to_string(value) + ", the target's hidden size is " +
                   std::to_string(target.hidden_size));
  };
  must_be_targets(fields.layer["hidden_size"], config.layer.hidden_size);
  must_be_targets(fields.root["target_hidden_size"],
                  fields.root["target_hidden_size"].uint_or(target.hidden_size));
  if (config.layer.vocab_size > config.vocab_size)
    fields["draft_vocab_size"].refuse("is " + std::to_string(config.layer.vocab_size) + ", vocab_size is " +
                                      std::to_string(config.vocab_size));
}

} // namespace

expected<dflash_config> read_dflash_config(const boost::json::object& object, const std::string& file,
                                           const std::string& name, std::uint32_t num_layers,
                                           const head_target& target, const head_overrides& overrides) {
  std::optional<error> failure;
  const json_node root(object, file, failure, json_node::naming::key);
  const dflash_fields fields = fields_of(root);
  dflash_config config;
  config.name = name;
  refuse_others(fields);
  read_layer_sizes(fields.layer, config.layer);
  config.layer.num_layers = num_layers;
  config.layer.local_layers.assign(num_layers, false);
  read_layer_rope(fields.layer, overrides.rope_theta, config.layer);
  config.vocab_size = fields.layer["vocab_size"].uint_or(target.vocab_size);
  config.layer.vocab_size = root["draft_vocab_size"].uint_or(config.vocab_size);
  read_block(fields, config, overrides);
  read_taps(fields, config, target, overrides);
  read_window(fields, config);
  read_markov(fields, config);
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
