#include "runtime/model/loader/gguf/gguf_model.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/lfm2_config.hpp"
#include "runtime/model/loader/families/longrope.hpp"
#include "runtime/model/loader/families/mixture_config.hpp"
#include "runtime/model/loader/gguf/gguf_keys.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/rope_frequencies.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace paceline::model {

namespace {

constexpr std::uint64_t max_uint32 = gguf_keys::max_uint32;

/// Describes a refused architecture if its name alone is not enough.
std::string_view kind_of_refused(std::string_view name) noexcept {
  if (name == "clip" || name.ends_with("vl") || name == "mllama") return " (a vision model)";
  if (name.ends_with("moe") || name == "mixtral" || name == "deepseek2" || name == "dbrx" || name == "grok")
    return " (a mixture of experts)";
  if (name == "t5" || name == "t5encoder" || name.find("bert") != std::string_view::npos)
    return " (an encoder)";
  return "";
}

expected<architecture> read_architecture(const gguf_metadata& metadata) {
  auto type = metadata.find_string("general.type");
  if (!type) return std::move(type).error();
  const auto kind = type->value_or("model");
  if (kind == "adapter")
    return metadata.key_error("general.type", "says this is a LoRA adapter, which is not supported",
                              errc::unsupported);
  if (kind != "model")
    return metadata.key_error("general.type", "says this is no model but " + quote(kind), errc::unsupported);
  auto name = metadata.require_string("general.architecture");
  if (!name) return std::move(name).error();
  if (*name == "olmo3") return architecture::olmo2; // Ollama's name; llama.cpp has one for both
  for (const family_traits& family : all_families())
    if (*name == to_string(family.arch)) return family.arch;
  return metadata.key_error("general.architecture",
                            "is " + quote(*name) + std::string(kind_of_refused(*name)) + "; supported are " +
                                names_of_families(),
                            errc::unsupported);
}

/// Refuses features of some files of a supported architecture that the forward pass does not have.
void refuse_unsupported(gguf_keys& keys, const model_config& config) {
  if (!traits_of(config.arch).has_experts && keys.uint_or("expert_count", 0) != 0)
    keys.refuse("expert_count",
                "says this is a mixture of experts, which is supported for " +
                    names_of_families({&family_traits::has_experts}) + " only",
                errc::unsupported);
  if (keys.uint_or("attention.value_length", config.head_dim) != config.head_dim)
    keys.refuse("attention.value_length", "differs from attention.key_length, which is not supported",
                errc::unsupported);
  for (const std::string_view cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (keys.number_or(cap, 0) != 0)
      keys.refuse(cap, "must be 0: soft caps are not supported", errc::unsupported);
}

rope_scaling read_rope_scaling(gguf_keys& keys, std::uint32_t context_length) {
  rope_scaling scaling;
  const double legacy_factor = keys.number_or("rope.scale_linear", 1);
  scaling.factor = keys.number_or("rope.scaling.factor", legacy_factor);
  // A factor without a type means linear, as in files older than the type key. Ollama's converter writes an
  // empty type if it has found none.
  auto type = keys.string_or("rope.scaling.type", "");
  if (type.empty()) type = scaling.factor == 1 || scaling.factor == 0 ? "none" : "linear";
  if (type == "none" || type == "longrope") { // the latter's divisors are in tensors
    scaling.factor = 1;
  } else if (type == "linear") {
    scaling.kind = rope_scaling_kind::linear;
  } else if (type == "yarn") {
    scaling.kind = rope_scaling_kind::yarn;
    scaling.original_context_length = keys.uint_or("rope.scaling.original_context_length", context_length);
    // The second names are those of Ollama's converter.
    const auto beta = [&](const char* name, const char* other, double usual) {
      return keys.number_or(name, keys.number_or(other, usual));
    };
    scaling.beta_fast = beta("rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast", scaling.beta_fast);
    scaling.beta_slow = beta("rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow", scaling.beta_slow);
    // llama.cpp's converter writes Hugging Face's attention_factor, which replaces YaRN's own; 1 is what its
    // other writers write for "none".
    const double own = keys.number_or("rope.scaling.yarn_attn_factor", 1);
    scaling.magnitude =
        (own == 1 ? yarn_magnitude(scaling.factor) : own) * keys.number_or("rope.scaling.attn_factor", 1);
    if (const double share = keys.number_or("rope.scaling.yarn_ext_factor", 1); share != 1 && share != -1)
      keys.refuse("rope.scaling.yarn_ext_factor", "must be 1", errc::unsupported);
  } else {
    keys.refuse("rope.scaling.type", "is " + quote(type) + "; supported are none, linear, yarn and longrope",
                errc::unsupported);
  }
  return scaling;
}

/// Reads the number of rotated values of each head, if only the first ones are rotated.
void read_rotary_dim(gguf_keys& keys, model_config& config) {
  const std::uint32_t rotated = keys.uint_or("rope.dimension_count", config.head_dim);
  if (rotated < 2 || rotated > config.head_dim || rotated % 2 != 0)
    return keys.refuse("rope.dimension_count",
                       "must be even, and 2 to the size of a head, " + std::to_string(config.head_dim));
  if (rotated != config.head_dim) config.rotary_dim = rotated;
}

/// The scaling of Llama 3 and LongRoPE in GGUF: a divisor for each pair, in a tensor.
expected<std::vector<float>> read_frequency_divisors(const gguf_file& file, std::string_view name,
                                                     std::uint32_t head_dim) {
  const auto* tensor = file.find_tensor(name);
  if (!tensor) return std::vector<float>();
  if (tensor->type != device::tensor_type::f32 || tensor->integer_bytes != 0 || tensor->num_dims != 1 ||
      tensor->shape[0] != head_dim / 2)
    return error(errc::invalid_file, file.name() + ": tensor " + quote(name) + " must be F32 of shape [" +
                                         std::to_string(head_dim / 2) + "]");
  for (const auto& part : file.files())
    if (auto read = part->read(tensor->data); !read) return std::move(read).error();
  std::vector<float> divisors(tensor->shape[0]);
  std::memcpy(divisors.data(), tensor->data.data(), tensor->data.size());
  return divisors;
}

std::uint32_t read_vocab_size(const gguf_file& file, gguf_keys& keys) {
  const auto* tokens = file.metadata().find("tokenizer.ggml.tokens");
  if (tokens && tokens->is_array) return static_cast<std::uint32_t>(std::min(tokens->count, max_uint32));
  if (keys.has("vocab_size")) return keys.uint("vocab_size");
  const auto* embedding = file.find_tensor("token_embd.weight");
  return embedding ? static_cast<std::uint32_t>(std::min(embedding->shape[1], max_uint32)) : 0;
}

/// Families in which some layers have no attention may state 0 KV heads for those.
std::uint32_t read_kv_heads(gguf_keys& keys, const model_config& config) {
  constexpr std::string_view name = "attention.head_count_kv";
  const bool is_of_lfm2 = is_lfm2(config.arch);
  if (!is_of_lfm2 && !keys.has(name)) return config.num_heads;
  if (!is_of_lfm2 && !traits_of(config.arch).has_delta_rules) return keys.uniform(name, config.num_layers);
  std::uint64_t number = 0;
  for (const std::uint64_t own : keys.per_layer(name, config.num_layers)) {
    if (own != 0 && number != 0 && own != number)
      keys.refuse(name, "differs between layers with attention, which is not supported", errc::unsupported);
    if (own != 0) number = own;
  }
  return static_cast<std::uint32_t>(number);
}

/// The feed-forward size of LFM2. Ollama's converter states the config's, of which the class takes two thirds
/// and rounds up (`Lfm2MLP`): then that of the tensors counts. Any other contradiction remains an error.
std::uint32_t ffn_size_of_lfm2(const gguf_file& file, std::uint32_t stated) {
  for (const gguf_tensor& tensor : file.tensors())
    if (const std::uint64_t rows = tensor.shape[1]; tensor.name.ends_with(".ffn_gate.weight"))
      return rows < stated && 3 * rows >= 2 * std::uint64_t{stated} ? static_cast<std::uint32_t>(rows)
                                                                    : stated;
  return stated;
}

/// `most_layers`: nothing is sized by the number of layers before it is known to be at most that.
void read_sizes(const gguf_file& file, gguf_keys& keys, std::uint64_t most_layers, model_config& config) {
  config.vocab_size = read_vocab_size(file, keys);
  config.context_length = keys.uint("context_length");
  config.hidden_size = keys.uint("embedding_length");
  config.num_layers = keys.uint("block_count");
  if (config.num_layers == 0) return keys.refuse("block_count", "must be at least 1");
  if (config.num_layers > most_layers) return keys.refuse("block_count", "is more than the file has tensors");
  config.num_heads = keys.uniform("attention.head_count", config.num_layers);
  config.num_kv_heads = read_kv_heads(keys, config);
  // Files in which all layers have experts may lack this key.
  if (!traits_of(config.arch).has_experts || keys.has("feed_forward_length"))
    config.ffn_size = keys.uniform("feed_forward_length", config.num_layers);
  if (config.arch == architecture::lfm2) config.ffn_size = ffn_size_of_lfm2(file, config.ffn_size);
  config.norm_epsilon = static_cast<float>(keys.number("attention.layer_norm_rms_epsilon"));
  if (keys.has("attention.key_length"))
    config.head_dim = keys.uint("attention.key_length");
  else if (config.num_heads != 0 && config.hidden_size % config.num_heads == 0)
    config.head_dim = config.hidden_size / config.num_heads;
  else
    keys.refuse("attention.head_count", "must divide embedding_length where attention.key_length is missing");
}

/// Reads what all families say alike of rotation and attention, for a config whose sizes are known.
/// `rope_theta` replaces the file's value; 0: does not.
void read_rotation(gguf_keys& keys, double rope_theta, model_config& config) {
  read_rotary_dim(keys, config);
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  config.local_layers.assign(config.num_layers, false);
  config.rope.theta =
      rope_theta != 0 ? rope_theta : keys.number_or("rope.freq_base", traits_of(config.arch).gguf_theta);
  config.rope.scaling = read_rope_scaling(keys, config.context_length);
}

/// Reads the factor of attention and the divisors of frequencies, which replace what the family has set, and
/// validates the config.
expected<model_config> finish_config(const gguf_file& file, gguf_keys& keys, model_config config) {
  config.attention_scale = static_cast<float>(keys.number_or("attention.scale", config.attention_scale));
  const std::string_view divisors_name = read_gguf_divisors_name(file, keys, config);
  if (keys.failure()) return *keys.failure();
  auto divisors = read_frequency_divisors(file, divisors_name, config.num_rotated());
  if (!divisors) return std::move(divisors).error();
  config.rope.frequency_divisors = std::move(divisors).value();
  if (!traits_of(config.arch).scales_global_rope) config.local_rope = config.rope;
  if (auto ok = validate(config); !ok) return std::move(ok).error().within(file.name());
  return config;
}

/// The rest of the config of a head's layers, whose sizes are known.
expected<model_config> read_layer_rotation(const gguf_file& file, gguf_keys& keys, double rope_theta,
                                           model_config config) {
  refuse_unsupported(keys, config);
  if (keys.failure()) return *keys.failure();
  read_rotation(keys, rope_theta, config);
  return finish_config(file, keys, std::move(config));
}

} // namespace

expected<model_config> read_gguf_config(const gguf_file& file) {
  const auto& metadata = file.metadata();
  auto arch = read_architecture(metadata);
  if (!arch) return std::move(arch).error();
  gguf_keys keys(metadata, metadata.require_string("general.architecture").value());
  model_config config;
  config.arch = *arch;
  auto name = metadata.find_string("general.name");
  if (!name) return std::move(name).error();
  config.name = name->value_or("");

  read_sizes(file, keys, file.tensors().size(), config);
  refuse_unsupported(keys, config);
  // Only of models: a DFlash drafter attends within its block in both directions, and says so.
  if (!keys.flag_or("attention.causal", true))
    keys.refuse("attention.causal", "must be true: this file is of a model that embeds texts",
                errc::unsupported);
  if (keys.failure()) return *keys.failure();

  const family_traits& traits = traits_of(*arch);
  read_rotation(keys, 0, config);
  config.activation = traits.activation;
  config.layout = traits.interleaved_in_gguf ? rope_layout::interleaved : rope_layout::half_split;
  config.qk_norm = traits.qk_norm;
  config.qkv_bias = traits.qkv_bias || file.find_tensor("blk.0.attn_q.bias") != nullptr;
  config.attention_output_bias = file.find_tensor("blk.0.attn_output.bias") != nullptr;
  config.tied_embeddings = file.find_tensor("output.weight") == nullptr;
  if (traits.read_gguf != nullptr) traits.read_gguf(file, keys, config);
  if (traits.has_experts) {
    read_gguf_mixture(file, keys, config);
    find_gguf_expert_layers(file, keys, config);
  }
  return finish_config(file, keys, std::move(config));
}

expected<model_config> read_gguf_layer_config(const gguf_file& file, std::string_view prefix,
                                              double rope_theta) {
  gguf_keys keys(file.metadata(), prefix);
  model_config config;
  read_sizes(file, keys, file.tensors().size(), config);
  return read_layer_rotation(file, keys, rope_theta, std::move(config));
}

expected<model_config> read_gguf_mtp_config(const gguf_file& file, architecture arch, bool has_experts,
                                            double rope_theta) {
  gguf_keys keys(file.metadata(), to_string(arch));
  model_config config;
  config.arch = arch;
  read_sizes(file, keys, most_layers, config); // of the model, whose tensors need not be there
  config.num_layers = 1;
  if (has_experts) {
    read_gguf_mixture(file, keys, config);
    config.experts.layers.assign(1, true);
  }
  return read_layer_rotation(file, keys, rope_theta, std::move(config));
}

expected<weights_source> read_gguf_weights(const gguf_file& file, const model_config& config) {
  std::vector<weight_view> tensors;
  tensors.reserve(file.tensors().size());
  skipped_tensors skipped;
  for (const auto& tensor : file.tensors()) {
    if (is_beside_text(tensor.name, tensor_naming::gguf)) {
      skipped.add(tensor.name, tensor.data.size());
      continue;
    }
    if (tensor.integer_bytes != 0)
      return error(errc::unsupported, file.name() + ": tensor " + quote(tensor.name) + " holds no weights");
    if (tensor.num_dims > 3)
      return error(errc::unsupported, file.name() + ": tensor " + quote(tensor.name) +
                                          " must have 1 to 3 dimensions, has " +
                                          std::to_string(tensor.num_dims));
    tensors.push_back({tensor.name,
                       {tensor.type, tensor.shape[1] * tensor.shape[2], tensor.shape[0], tensor.data},
                       nullptr,
                       tensor.shape[2]});
  }
  return weights_source::make(config, tensors, tensor_naming::gguf, nullptr, file.name(), file.files(),
                              skipped);
}

} // namespace paceline::model
