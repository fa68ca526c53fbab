#include "runtime/model/loader/hugging_face/hf_config.hpp"

#include "runtime/base/joined.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/layer_types.hpp"
#include "runtime/model/loader/families/local_layers.hpp"
#include "runtime/model/loader/families/longrope.hpp"
#include "runtime/model/loader/families/mixture_config.hpp"
#include "runtime/model/loader/hugging_face/hf_rope.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

namespace json = boost::json;

/// The layers to which a class gives the window that its config states.
enum class window : std::uint8_t {
  none,
  all,
  used,  ///< all, if "use_sliding_window" says so
  upper, ///< likewise those from "max_window_layers" on
  mixed, ///< all except one layer in a fixed number
};

/// Defaults of the transformers class of a model type that differ between types.
struct hf_class {
  std::string_view model_type;
  architecture arch;
  std::uint32_t default_kv_heads; ///< 0: as many as query heads
  std::uint32_t default_head_dim; ///< 0: hidden size over heads
  double default_theta;
  bool tied_by_default;
  window local;         ///< layers with a window
  double rotated_share; ///< of each head's values
  class_sizes nested_sizes;
};

// clang-format off
constexpr std::array<hf_class, 17> hf_classes = {{
    {"llama", architecture::llama, 0, 0, 1e4, false, window::none, 1, {32000, 2048, 4096, 32, 32, 11008}},
    {"mistral", architecture::llama, 8, 0, 1e4, false, window::all, 1, {32000, 131072, 4096, 32, 32, 14336}},
    {"qwen2", architecture::qwen2, 32, 0, 1e4, false, window::upper, 1, {151936, 32768, 4096, 32, 32, 22016}},
    {"qwen3", architecture::qwen3, 32, 128, 1e4, false, window::upper, 1, {151936, 32768, 4096, 32, 32, 22016}},
    {"qwen3_moe", architecture::qwen3moe, 4, 0, 1e4, false, window::used, 1, {151936, 32768, 2048, 24, 32, 6144}},
    {"lfm2", architecture::lfm2, 8, 0, 1e6, true, window::none, 1, {65536, 128000, 2560, 32, 32, 12288}},
    {"lfm2_moe", architecture::lfm2moe, 8, 0, 1e6, true, window::none, 1, {65536, 128000, 2048, 32, 32, 7168}},
    {"qwen3_5_text", architecture::qwen35, 4, 256, 1e4, false, window::none, 0.25, {248320, 32768, 4096, 32, 16, 12288}},
    {"qwen3_5_moe_text", architecture::qwen35moe, 2, 256, 1e4, false, window::none, 0.25, {248320, 32768, 2048, 40, 16, 0}},
    {"qwen3_next", architecture::qwen3next, 2, 256, 1e4, false, window::none, 0.25, {151936, 32768, 2048, 48, 16, 5632}},
    {"granite", architecture::granite, 0, 0, 1e4, false, window::none, 1, {32000, 2048, 4096, 32, 32, 11008}},
    {"ministral3", architecture::mistral3, 8, 128, 1e6, false, window::none, 1, {131072, 262144, 4096, 34, 32, 14336}},
    {"olmo2", architecture::olmo2, 0, 0, 1e4, false, window::none, 1, {50304, 2048, 4096, 32, 32, 11008}},
    {"olmo3", architecture::olmo2, 0, 0, 5e5, false, window::mixed, 1, {50304, 2048, 4096, 32, 32, 11008}},
    {"phi3", architecture::phi3, 0, 0, 1e4, false, window::none, 1, {32064, 4096, 3072, 32, 32, 8192}},
    {"smollm3", architecture::smollm3, 4, 0, 2e6, true, window::none, 1, {128256, 32768, 2048, 36, 16, 11008}},
    {"gemma3_text", architecture::gemma3, 4, 256, 1e6, true, window::mixed, 1, {262208, 131072, 2304, 26, 8, 9216}},
}};
// clang-format on

/// The parts of a config.json. It describes a language model alone, or a model that has a language model as a
/// part.
struct config_members {
  json_node all;
  json_node text;         ///< those of the language model
  bool is_nested = false; ///< `text` is the "text_config" in `all`
};

config_members find_text(const json_node& all) {
  const json_node text = all["text_config"];
  if (!text) return {all, all};
  text.require_object();
  return {all, text, true};
}

std::string_view kind_of_refused(std::string_view type, const json_node& fields) {
  if (fields["vision_config"] || type.find("vl") != std::string_view::npos) return " (a vision model)";
  if (fields["num_local_experts"] || fields["num_experts"] || fields["n_routed_experts"])
    return " (a mixture of experts)";
  if (fields["is_encoder_decoder"].is_true()) return " (an encoder-decoder)";
  return "";
}

const hf_class* read_class(const json_node& fields) {
  const auto type = fields["model_type"].string_or("");
  for (const auto& known : hf_classes)
    if (type == known.model_type) return &known;
  fields["model_type"].refuse("is " + quote(type) + std::string(kind_of_refused(type, fields)) +
                                  "; supported are " + listed(hf_classes, &hf_class::model_type),
                              errc::unsupported);
  return nullptr;
}

/// Classifiers and encoder-decoders have the same configs as language models. A class that wraps a language
/// model is called "...ForConditionalGeneration".
void refuse_other_classes(const config_members& config) {
  if (config.is_nested && config.all["is_encoder_decoder"].flag_or(false))
    config.all["is_encoder_decoder"].refuse("must be false", errc::unsupported);
  const json_node names = config.all["architectures"];
  if (!names) return;
  names.require_array();
  if (names.size() == 0) return;
  const std::string name = names[0].is_string() ? names[0].string() : "";
  if (!name.ends_with("ForCausalLM") && !(config.is_nested && name.ends_with("ForConditionalGeneration")))
    names.refuse("names no causal language model", errc::unsupported);
}

/// Refuses features of some checkpoints of a supported type that the forward pass does not have.
void refuse_unsupported(const json_node& fields, const hf_class& type) {
  if (fields["use_bidirectional_attention"].flag_or(false))
    fields["use_bidirectional_attention"].refuse("must be false: this is an encoder", errc::unsupported);
  if (fields["mlp_bias"].flag_or(false)) fields["mlp_bias"].refuse("must be false", errc::unsupported);
  for (const std::string_view cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (fields[cap].setting_or(0) != 0)
      fields[cap].refuse("must be null: soft caps are not supported", errc::unsupported);
  const bool is_gelu = traits_of(type.arch).activation == gate_activation::gelu_tanh;
  const std::string_view key = is_gelu ? "hidden_activation" : "hidden_act"; // Gemma's name, and the others'
  const std::string_view expected_activation = is_gelu ? "gelu_pytorch_tanh" : "silu";
  const std::string activation = fields[key].string_or(expected_activation);
  const bool is_silu = !is_gelu && activation == "swish"; // transformers' other name for it
  if (activation != expected_activation && !is_silu)
    fields[key].refuse("must be " + quote(expected_activation), errc::unsupported);
}

} // namespace

std::optional<architecture> hf_architecture(std::string_view model_type) noexcept {
  const auto* const found = std::ranges::find(hf_classes, model_type, &hf_class::model_type);
  return found == hf_classes.end() ? std::nullopt : std::optional(found->arch);
}

std::optional<mtp_class_defaults> hf_mtp_defaults(std::string_view model_type) {
  for (const hf_class& one : hf_classes)
    if (traits_of(one.arch).has_mtp_module &&
        (one.model_type == model_type || one.model_type == std::string(model_type) + "_text"))
      return mtp_class_defaults{one.nested_sizes, one.default_kv_heads, one.default_head_dim,
                                one.rotated_share};
  return std::nullopt;
}

namespace {

void read_local_layers(const json_node& fields, const hf_class& type, model_config& config) {
  config.local_layers.assign(config.num_layers, false);
  const window rule = type.local;
  const bool only_if_used = rule == window::upper || rule == window::used;
  if (rule == window::none || (only_if_used && !fields["use_sliding_window"].flag_or(false))) return;
  // In configs of Mistral and Qwen, null means "no window". Without the field, the class's default applies.
  if (fields["sliding_window"].is_null()) return;
  config.sliding_window = fields["sliding_window"].uint_or(4096);
  if (config.sliding_window == 0) return fields["sliding_window"].refuse("must be at least 1");
  // A class whose layers are all alike does not look at their types.
  if (const json_node types = fields["layer_types"]; types && rule != window::used) {
    config.local_layers = layers_of_type(types, config.num_layers, "sliding_attention");
    return;
  }
  if (rule == window::mixed) return read_hf_window_period(fields, config);
  const auto first = rule == window::upper ? fields["max_window_layers"].uint_or(28) : 0;
  for (std::uint32_t i = 0; i < config.num_layers; ++i) config.local_layers[i] = i >= first;
}

void read_sizes(const config_members& members, const hf_class& type, model_config& config) {
  const json_node& fields = members.text;
  const auto size = [&](std::string_view key, std::uint32_t nested) {
    return members.is_nested ? fields[key].uint_or(nested) : fields[key].uint();
  };
  config.vocab_size = size("vocab_size", type.nested_sizes.vocab_size);
  config.context_length = size("max_position_embeddings", type.nested_sizes.context_length);
  config.hidden_size = size("hidden_size", type.nested_sizes.hidden_size);
  config.num_layers = size("num_hidden_layers", type.nested_sizes.num_layers);
  config.num_heads = size("num_attention_heads", type.nested_sizes.num_heads);
  // Without the key, the class's default applies; null means "as many as there are heads".
  const json_node kv_heads = fields["num_key_value_heads"];
  const bool is_usual = type.default_kv_heads == 0 || kv_heads.is_null();
  config.num_kv_heads = kv_heads.uint_or(is_usual ? config.num_heads : type.default_kv_heads);
  const bool is_of_lfm2 = !fields["intermediate_size"] && fields["block_ff_dim"]; // the first LFM2 configs
  const std::string_view ffn_size = is_of_lfm2 ? "block_ff_dim" : "intermediate_size";
  config.ffn_size = type.nested_sizes.ffn_size == 0 ? fields[ffn_size].uint_or(0)
                                                    : size(ffn_size, type.nested_sizes.ffn_size);
  config.norm_epsilon = static_cast<float>(fields["rms_norm_eps"].setting_or(1e-6));
  if (fields["head_dim"] || (type.default_head_dim != 0 && !fields["head_dim"].is_null()))
    config.head_dim = fields["head_dim"].uint_or(type.default_head_dim);
  else if (config.num_heads != 0 && config.hidden_size % config.num_heads == 0)
    config.head_dim = config.hidden_size / config.num_heads;
  else
    fields["num_attention_heads"].refuse("must divide hidden_size where head_dim is missing");
}

} // namespace

expected<model_config> read_hf_config(const json::object& object, const std::string& file) {
  std::optional<error> failure;
  const config_members members = find_text(json_node(object, file, failure, json_node::naming::key));
  const json_node& fields = members.text;
  const auto* type = read_class(fields);
  if (!type) return *failure;
  refuse_other_classes(members);
  refuse_unsupported(fields, *type);
  model_config config;
  config.arch = type->arch;
  config.name = members.all["_name_or_path"].string_or("");
  read_sizes(members, *type, config);
  if (failure) return *failure;
  // Nothing may be allocated by the number of layers before that number has been checked.
  if (config.num_layers > most_layers)
    fields["num_hidden_layers"].refuse("must be at most " + std::to_string(most_layers));
  if (failure) return *failure;

  const bool attention_bias = fields["attention_bias"].flag_or(false);
  config.layout = rope_layout::half_split;
  // In a nested config, the class around the language model decides; that of Mistral 3 ties them by default.
  const bool is_in_mistral3 = members.is_nested && members.all["model_type"].string_or("") == "mistral3";
  config.tied_embeddings = members.all["tie_word_embeddings"].flag_or(
      is_in_mistral3 || fields["tie_word_embeddings"].flag_or(type->tied_by_default));
  const family_traits& traits = traits_of(type->arch);
  config.qkv_bias = traits.qkv_bias || attention_bias;
  config.attention_output_bias = !traits.qkv_bias && attention_bias;
  config.qk_norm = traits.qk_norm;
  config.activation = traits.activation;
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  read_local_layers(fields, *type, config);
  read_hf_rotation(fields, type->default_theta, config);
  const bool rotates_parts = type->rotated_share != 1 || type->arch == architecture::phi3;
  read_hf_rotary_dim(fields, rotates_parts ? std::optional(type->rotated_share) : std::nullopt, config);
  read_hf_longrope(fields, config);
  if (traits.read_hf != nullptr) traits.read_hf(fields, config);
  if (traits.has_experts) {
    read_hf_mixture(fields, config);
    read_hf_expert_layers(fields, config);
  }
  if (failure) return *failure;
  if (auto ok = validate(config); !ok) return std::move(ok).error().within(file);
  return config;
}

} // namespace paceline::model
