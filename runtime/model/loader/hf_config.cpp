#include "runtime/model/loader/hf_config.hpp"

#include "runtime/model/loader/json_fields.hpp"
#include "runtime/model/loader/quote.hpp"

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

/// Defaults of the transformers class of a model type that differ between types.
struct family {
  std::string_view model_type;
  architecture arch;
  std::uint32_t default_kv_heads; ///< 0: as many as query heads
  std::uint32_t default_head_dim; ///< 0: hidden size over heads
  double default_theta;
  bool tied_by_default;
};

constexpr std::array<family, 5> families = {{
    {"llama", architecture::llama, 0, 0, 1e4, false},
    {"mistral", architecture::llama, 8, 0, 1e4, false},
    {"qwen2", architecture::qwen2, 32, 0, 1e4, false},
    {"qwen3", architecture::qwen3, 32, 128, 1e4, false},
    {"gemma3_text", architecture::gemma3, 4, 256, 1e6, true},
}};

std::string_view kind_of_refused(std::string_view type, const json_fields& fields) {
  if (fields.has("vision_config") || type.find("vl") != std::string_view::npos) return " (a vision model)";
  if (fields.has("num_local_experts") || fields.has("num_experts") || fields.has("n_routed_experts"))
    return " (a mixture of experts)";
  if (fields.has("is_encoder_decoder") && fields.find("is_encoder_decoder")->is_bool() &&
      fields.find("is_encoder_decoder")->get_bool())
    return " (an encoder-decoder)";
  return "";
}

const family* read_family(json_fields& fields) {
  const auto type = fields.string_or("model_type", "");
  for (const auto& known : families)
    if (type == known.model_type) return &known;
  fields.refuse("model_type",
                "is " + quote(type) + std::string(kind_of_refused(type, fields)) +
                    "; supported are llama, mistral, qwen2, qwen3 and gemma3_text",
                errc::unsupported);
  return nullptr;
}

/// Refuses features of some checkpoints of a supported type that the forward pass does not have.
void refuse_unsupported(json_fields& fields, const family& type) {
  if (const auto* names = fields.array("architectures"); names && !names->empty()) {
    const auto* name = names->front().if_string();
    if (!name || !std::string_view(name->data(), name->size()).ends_with("ForCausalLM"))
      fields.refuse("architectures", "names no causal language model", errc::unsupported);
  }
  if (fields.flag_or("use_bidirectional_attention", false))
    fields.refuse("use_bidirectional_attention", "must be false: this is an encoder", errc::unsupported);
  if (fields.flag_or("mlp_bias", false)) fields.refuse("mlp_bias", "must be false", errc::unsupported);
  if (fields.number_or("partial_rotary_factor", 1) != 1)
    fields.refuse("partial_rotary_factor", "must be 1", errc::unsupported);
  for (const std::string_view cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (fields.number_or(cap, 0) != 0)
      fields.refuse(cap, "must be null: soft caps are not supported", errc::unsupported);
  const bool is_gemma = type.arch == architecture::gemma3;
  const std::string_view key = is_gemma ? "hidden_activation" : "hidden_act";
  const std::string_view expected_activation = is_gemma ? "gelu_pytorch_tanh" : "silu";
  if (fields.string_or(key, expected_activation) != expected_activation)
    fields.refuse(key, "must be " + quote(expected_activation), errc::unsupported);
}

void read_yarn(json_fields& fields, rope_scaling& scaling, std::uint32_t context_length) {
  scaling.kind = rope_scaling_kind::yarn;
  scaling.original_context_length = fields.uint_or("original_max_position_embeddings", context_length);
  scaling.beta_fast = fields.number_or("beta_fast", scaling.beta_fast);
  scaling.beta_slow = fields.number_or("beta_slow", scaling.beta_slow);
  scaling.truncate = fields.flag_or("truncate", true);
  scaling.magnitude = yarn_magnitude(scaling.factor);
  const double weight = fields.number_or("mscale", 0);
  const double all_dims_weight = fields.number_or("mscale_all_dim", 0);
  if (weight != 0 && all_dims_weight != 0)
    scaling.magnitude =
        yarn_magnitude(scaling.factor, weight) / yarn_magnitude(scaling.factor, all_dims_weight);
  scaling.magnitude = fields.number_or("attention_factor", scaling.magnitude);
}

/// Reads one object of scaling settings: rope_scaling, rope_parameters, or the part of the latter for one
/// kind of layer.
rope_config read_rope_object(json_fields& fields, double theta, std::uint32_t context_length) {
  rope_config rope;
  rope.theta = fields.number_or("rope_theta", theta);
  auto& scaling = rope.scaling;
  const auto kind = fields.string_or("rope_type", fields.string_or("type", "default"));
  if (kind == "default") return rope;
  scaling.factor = fields.number("factor");
  if (kind == "linear") {
    scaling.kind = rope_scaling_kind::linear;
  } else if (kind == "llama3") {
    scaling.kind = rope_scaling_kind::llama3;
    scaling.original_context_length = fields.uint("original_max_position_embeddings");
    scaling.low_freq_factor = fields.number("low_freq_factor");
    scaling.high_freq_factor = fields.number("high_freq_factor");
  } else if (kind == "yarn") {
    read_yarn(fields, scaling, context_length);
  } else {
    fields.refuse("rope_type", "is " + quote(kind) + "; supported are default, linear, llama3 and yarn",
                  errc::unsupported);
  }
  return rope;
}

rope_config read_nested_rope(json_fields& fields, std::string_view key, double theta,
                             std::uint32_t context_length) {
  rope_config rope;
  rope.theta = theta;
  if (const auto* object = fields.object(key)) {
    json_fields nested(*object, fields.where() + ": " + std::string(key));
    rope = read_rope_object(nested, theta, context_length);
    fields.adopt(nested);
  }
  return rope;
}

void read_rope(json_fields& fields, const family& type, model_config& config) {
  const double theta = fields.number_or("rope_theta", type.default_theta);
  const double local_theta = fields.number_or("rope_local_base_freq", 1e4);
  const bool is_gemma = type.arch == architecture::gemma3;
  const auto* parameters = fields.object("rope_parameters");
  if (parameters && parameters->contains("full_attention")) {
    json_fields nested(*parameters, fields.where() + ": rope_parameters");
    config.rope = read_nested_rope(nested, "full_attention", theta, config.context_length);
    config.local_rope = read_nested_rope(nested, "sliding_attention", local_theta, config.context_length);
    fields.adopt(nested);
  } else {
    config.rope = read_nested_rope(fields, parameters ? "rope_parameters" : "rope_scaling", theta,
                                   config.context_length);
    // Gemma's local layers have their own base and no scaling; those of other families rotate like the other
    // layers.
    config.local_rope = config.rope;
    if (is_gemma) {
      config.local_rope = {};
      config.local_rope.theta = local_theta;
    }
  }
  // YaRN files state the original training context; the model's context is that times the factor.
  const auto& scaling = config.rope.scaling;
  if (scaling.kind == rope_scaling_kind::yarn && scaling.factor >= 1 && scaling.factor <= 1e6)
    config.context_length = static_cast<std::uint32_t>(std::clamp<double>(
        scaling.factor * scaling.original_context_length, config.context_length, 4294967295.0));
}

/// Reads "layer_types": the layers that have a window.
void read_layer_types(json_fields& fields, const json::array& types, model_config& config) {
  if (types.size() != config.num_layers)
    return fields.refuse("layer_types", "must have one element for each layer");
  for (std::uint32_t i = 0; i < config.num_layers; ++i) {
    const auto* name = types[i].if_string();
    if (!name || (*name != "sliding_attention" && *name != "full_attention"))
      return fields.refuse("layer_types", "must hold 'sliding_attention' and 'full_attention' only",
                           errc::unsupported);
    config.local_layers[i] = *name == "sliding_attention";
  }
}

void read_local_layers(json_fields& fields, const family& type, model_config& config) {
  config.local_layers.assign(config.num_layers, false);
  const bool is_qwen = type.arch == architecture::qwen2 || type.arch == architecture::qwen3;
  const bool is_gemma = type.arch == architecture::gemma3;
  const bool is_mistral = type.model_type == "mistral";
  const bool has_window = is_gemma || is_mistral || (is_qwen && fields.flag_or("use_sliding_window", false));
  if (!has_window) return;
  // Mistral and Qwen write null for "no window"; if it is absent, it has the class's default.
  if (fields.is_null("sliding_window")) return;
  config.sliding_window = fields.uint_or("sliding_window", 4096);
  if (config.sliding_window == 0) return fields.refuse("sliding_window", "must be at least 1");
  if (const auto* types = fields.array("layer_types")) return read_layer_types(fields, *types, config);
  const auto period = fields.uint_or("sliding_window_pattern", fields.uint_or("_sliding_window_pattern", 6));
  if (period == 0) return fields.refuse("sliding_window_pattern", "must be at least 1");
  const auto first = is_qwen ? fields.uint_or("max_window_layers", 28) : 0;
  for (std::uint32_t i = 0; i < config.num_layers; ++i)
    config.local_layers[i] = is_gemma ? (i + 1) % period != 0 : i >= first;
}

void read_sizes(json_fields& fields, const family& type, model_config& config) {
  config.vocab_size = fields.uint("vocab_size");
  config.context_length = fields.uint("max_position_embeddings");
  config.hidden_size = fields.uint("hidden_size");
  config.num_layers = fields.uint("num_hidden_layers");
  config.num_heads = fields.uint("num_attention_heads");
  config.num_kv_heads = fields.uint_or("num_key_value_heads",
                                       type.default_kv_heads == 0 ? config.num_heads : type.default_kv_heads);
  config.ffn_size = fields.uint("intermediate_size");
  config.norm_epsilon = static_cast<float>(fields.number_or("rms_norm_eps", 1e-6));
  if (fields.has("head_dim") || type.default_head_dim != 0)
    config.head_dim = fields.uint_or("head_dim", type.default_head_dim);
  else if (config.num_heads != 0 && config.hidden_size % config.num_heads == 0)
    config.head_dim = config.hidden_size / config.num_heads;
  else
    fields.refuse("num_attention_heads", "must divide hidden_size where head_dim is missing");
}

} // namespace

expected<model_config> read_hf_config(const json::object& object, const std::string& file) {
  json_fields fields(object, file);
  const auto* type = read_family(fields);
  if (!type) return *fields.failure();
  refuse_unsupported(fields, *type);
  model_config config;
  config.arch = type->arch;
  config.name = fields.string_or("_name_or_path", "");
  read_sizes(fields, *type, config);
  if (fields.failure()) return *fields.failure();
  // Nothing is sized by the number of layers before it was checked.
  constexpr std::uint32_t max_layers = 4096;
  if (config.num_layers > max_layers) fields.refuse("num_hidden_layers", "must be at most 4096");
  if (fields.failure()) return *fields.failure();

  const bool is_gemma = type->arch == architecture::gemma3;
  const bool attention_bias = fields.flag_or("attention_bias", false);
  config.layout = rope_layout::half_split;
  config.tied_embeddings = fields.flag_or("tie_word_embeddings", type->tied_by_default);
  config.qkv_bias = type->arch == architecture::qwen2 || attention_bias;
  config.attention_output_bias = type->arch != architecture::qwen2 && attention_bias;
  config.qk_norm = is_gemma || type->arch == architecture::qwen3;
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  read_local_layers(fields, *type, config);
  read_rope(fields, *type, config);
  if (is_gemma) {
    config.activation = gate_activation::gelu_tanh;
    config.post_norms = true;
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    const double scalar = fields.number_or("query_pre_attn_scalar", 256);
    config.attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  }
  if (fields.failure()) return *fields.failure();
  if (auto ok = validate(config); !ok) return std::move(ok).error().within(file);
  return config;
}

} // namespace paceline::model
