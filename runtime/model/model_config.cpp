#include "runtime/model/model_config.hpp"

#include "runtime/device/op_short_conv.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace paceline::model {

namespace {

struct range {
  std::string_view field;
  std::uint64_t value;
  std::uint64_t min;
  std::uint64_t max;
};

error broken(std::string_view field, const std::string& rule) {
  return error(errc::invalid_file, std::string(field) + " " + rule);
}

expected<void> check_ranges(std::span<const range> ranges) {
  for (const auto& [field, value, min, max] : ranges)
    if (value < min || value > max)
      return broken(field, "must be " + std::to_string(min) + " to " + std::to_string(max) + ", is " +
                               std::to_string(value));
  return {};
}

expected<void> validate_rope(const rope_config& rope, std::uint32_t head_dim, const std::string& which) {
  const auto& scaling = rope.scaling;
  // Comparisons are written so that NaN fails.
  if (!(rope.theta > 1 && rope.theta <= 1e12))
    return broken(which + " theta", "must be above 1 and at most 1e12");
  if (!(scaling.factor >= 1 && scaling.factor <= 1e6))
    return broken(which + " scaling factor", "must be 1 to 1e6");
  if (!(scaling.magnitude > 0 && scaling.magnitude <= 1e3))
    return broken(which + " scaling magnitude", "must be above 0 and at most 1000");
  if (scaling.kind == rope_scaling_kind::llama3 || scaling.kind == rope_scaling_kind::yarn)
    if (scaling.original_context_length == 0)
      return broken(which + " original context length", "must be at least 1");
  if (scaling.kind == rope_scaling_kind::llama3)
    if (!(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
          scaling.high_freq_factor <= 1e6))
      return broken(which + " frequency factors", "must satisfy 0 < low < high <= 1e6");
  if (scaling.kind == rope_scaling_kind::yarn)
    if (!(scaling.beta_slow > 0 && scaling.beta_fast >= scaling.beta_slow && scaling.beta_fast <= 1e6))
      return broken(which + " beta_fast and beta_slow", "must satisfy 0 < slow <= fast <= 1e6");
  if (!rope.frequency_divisors.empty()) {
    if (rope.frequency_divisors.size() != head_dim / 2)
      return broken(which + " frequency divisors",
                    "must be one for each of the " + std::to_string(head_dim / 2) + " pairs");
    for (const float divisor : rope.frequency_divisors)
      if (!(divisor > 0 && divisor <= 1e9F))
        return broken(which + " frequency divisors", "must be above 0 and at most 1e9");
  }
  return {};
}

/// Sizes may be 0 if no layer uses them.
expected<void> validate_delta(const device::delta_heads& heads, bool is_used) {
  const std::uint32_t least = is_used ? 1 : 0;
  const range ranges[] = {
      {"delta num_keys", heads.num_keys, least, 1024},
      {"delta num_values", heads.num_values, least, 1024},
      {"delta key_dim", heads.key_dim, 4 * least, device::max_delta_keys},
      {"delta value_dim", heads.value_dim, least, 1024},
  };
  if (auto ok = check_ranges(ranges); !ok || !is_used) return ok;
  if (heads.num_values % heads.num_keys != 0)
    return broken("delta num_values", std::to_string(heads.num_values) + " must be a multiple of num_keys " +
                                          std::to_string(heads.num_keys));
  if (heads.key_dim % 4 != 0)
    return broken("delta key_dim", "must be a multiple of 4, is " + std::to_string(heads.key_dim));
  return {};
}

expected<void> validate_kinds(const model_config& config) {
  const auto& kinds = config.layer_kinds;
  if (!kinds.empty() && kinds.size() != config.num_layers)
    return broken("layer_kinds", "must be one for each layer");
  const std::uint32_t num_attention = config.num_layers_of(layer_kind::attention);
  if (num_attention == 0)
    return broken("layer_kinds", "must have a layer with attention: without one there is no KV cache");
  const std::uint32_t least_taps = num_attention == config.num_layers ? 0 : 2;
  const range taps[] = {{"conv num_taps", config.conv.num_taps, least_taps, device::max_conv_taps}};
  if (auto ok = check_ranges(taps); !ok) return ok;
  return validate_delta(config.delta, config.num_layers_of(layer_kind::gated_delta) != 0);
}

/// Growth is part of the rotation.
expected<void> validate_growth(const model_config& config) {
  if (config.growth.period == 0) return {};
  if (!(config.growth.beta >= 0 && config.growth.beta <= 1e3))
    return broken("query growth", "must be 0 to 1000");
  if (config.num_rotated() != config.head_dim || !config.unrotated_layers.empty() ||
      config.sliding_window != 0)
    return broken("query growth", "needs layers that rotate whole heads and have no window");
  return {};
}

/// Other blocks than attention and a dense one have a norm before them only.
expected<void> validate_norms(const model_config& config) {
  if (config.qk_norm_of_rows && !config.qk_norm) return broken("qk_norm_of_rows", "needs qk_norm");
  if (config.pre_norms) return {};
  if (!config.post_norms) return broken("pre_norms", "must be true where there are no post_norms");
  if (config.num_layers_of(layer_kind::attention) != config.num_layers || config.attention_gate ||
      config.experts.routing.num_experts != 0)
    return broken("pre_norms", "must be true except for layers of attention and a dense block");
  return {};
}

expected<void> validate_experts(const model_config& config) {
  const expert_config& experts = config.experts;
  const device::expert_routing& routing = experts.routing;
  if (experts.shared_ffn_size > 1U << 22)
    return broken("shared expert ffn_size",
                  "must be at most 4194304, is " + std::to_string(experts.shared_ffn_size));
  if (routing.num_experts == 0) return {};
  if (routing.num_experts > device::max_experts)
    return broken("num_experts", "must be at most " + std::to_string(device::max_experts) + ", is " +
                                     std::to_string(routing.num_experts));
  if (routing.num_used == 0 || routing.num_used > std::min(routing.num_experts, device::max_used_experts))
    return broken("num_used_experts",
                  "must be 1 to " + std::to_string(std::min(routing.num_experts, device::max_used_experts)) +
                      ", is " + std::to_string(routing.num_used));
  if (experts.ffn_size == 0 || experts.ffn_size > 1U << 22)
    return broken("expert ffn_size", "must be 1 to 4194304, is " + std::to_string(experts.ffn_size));
  if (experts.layers.size() != config.num_layers)
    return broken("expert layers", "must be one flag for each layer");
  if (!(routing.scale > 0 && routing.scale <= 1e3F))
    return broken("expert scale", "must be above 0 and at most 1000");
  return {};
}

} // namespace

std::string_view to_string(architecture arch) noexcept {
  switch (arch) {
  case architecture::llama:
    return "llama";
  case architecture::qwen2:
    return "qwen2";
  case architecture::qwen3:
    return "qwen3";
  case architecture::qwen3moe:
    return "qwen3moe";
  case architecture::lfm2:
    return "lfm2";
  case architecture::lfm2moe:
    return "lfm2moe";
  case architecture::qwen35:
    return "qwen35";
  case architecture::qwen35moe:
    return "qwen35moe";
  case architecture::qwen3next:
    return "qwen3next";
  case architecture::granite:
    return "granite";
  case architecture::mistral3:
    return "mistral3";
  case architecture::olmo2:
    return "olmo2";
  case architecture::phi3:
    return "phi3";
  case architecture::smollm3:
    return "smollm3";
  case architecture::gemma3:
    return "gemma3";
  }
  return "unknown";
}

double expected_experts(const expert_config& experts, std::uint32_t num_rows) noexcept {
  const double all = experts.routing.num_experts;
  return all == 0 ? 0 : all * (1 - std::pow(1 - experts.routing.num_used / all, num_rows));
}

std::uint32_t model_config::num_layers_of(layer_kind kind) const noexcept {
  if (layer_kinds.empty()) return kind == layer_kind::attention ? num_layers : 0;
  return static_cast<std::uint32_t>(std::ranges::count(layer_kinds, kind));
}

std::uint32_t model_config::num_expert_layers() const noexcept {
  if (experts.routing.num_experts == 0) return 0;
  return static_cast<std::uint32_t>(std::count(experts.layers.begin(), experts.layers.end(), true));
}

expected<void> validate(const model_config& config) {
  const range ranges[] = {
      {"vocab_size", config.vocab_size, 1, 1U << 24},
      {"context_length", config.context_length, 1, 1U << 30},
      {"hidden_size", config.hidden_size, 1, 1U << 20},
      {"num_layers", config.num_layers, 1, most_layers},
      {"num_heads", config.num_heads, 1, 4096},
      {"num_kv_heads", config.num_kv_heads, 1, 4096},
      {"head_dim", config.head_dim, 2, 4096},
      {"ffn_size", config.ffn_size, config.num_dense_layers() != 0 ? 1U : 0U, 1U << 22},
      {"sliding_window", config.sliding_window, 0, 1U << 30},
      {"num_mtp_modules", config.num_mtp_modules, 0, most_layers},
      {"local_layers", config.local_layers.size(), config.num_layers, config.num_layers},
  };
  if (auto ok = check_ranges(ranges); !ok) return ok;
  if (config.rotary_dim % 2 != 0 || config.rotary_dim > config.head_dim)
    return broken("rotary_dim", "must be even and at most head_dim " + std::to_string(config.head_dim) +
                                    ", is " + std::to_string(config.rotary_dim));
  if (auto ok = validate_kinds(config); !ok) return ok;
  if (config.num_heads % config.num_kv_heads != 0)
    return broken("num_heads", std::to_string(config.num_heads) + " must be a multiple of num_kv_heads " +
                                   std::to_string(config.num_kv_heads));
  if (!config.unrotated_layers.empty() && config.unrotated_layers.size() != config.num_layers)
    return broken("unrotated_layers", "must be one for each layer");
  if (config.head_dim % 2 != 0)
    return broken("head_dim", "must be even, is " + std::to_string(config.head_dim));
  if (!(config.norm_epsilon > 0 && config.norm_epsilon < 1))
    return broken("norm_epsilon", "must be between 0 and 1");
  if (!(config.attention_scale > 0 && config.attention_scale <= 1e3F))
    return broken("attention_scale", "must be above 0 and at most 1000");
  if (!(config.embedding_scale > 0 && config.embedding_scale <= 1e6F))
    return broken("embedding_scale", "must be above 0 and at most 1e6");
  if (!(config.residual_scale > 0 && config.residual_scale <= 1e3F))
    return broken("residual_scale", "must be above 0 and at most 1000");
  if (!(config.logits_scale > 0 && config.logits_scale <= 1e6F))
    return broken("logits_scale", "must be above 0 and at most 1e6");
  if (auto ok = validate_experts(config); !ok) return ok;
  if (auto ok = validate_growth(config); !ok) return ok;
  if (auto ok = validate_norms(config); !ok) return ok;
  if (auto ok = validate_rope(config.rope, config.num_rotated(), "rope"); !ok) return ok;
  return validate_rope(config.local_rope, config.num_rotated(), "local rope");
}

} // namespace paceline::model
