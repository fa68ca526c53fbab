#include "runtime/model/loader/tensor_role.hpp"

#include "runtime/model/loader/lfm2_config.hpp"

#include <array>
#include <charconv>
#include <optional>

namespace paceline::model {

namespace {

/// The properties of a role that do not depend on the model: its name in each kind of file.
struct role_names {
  tensor_role role;
  std::string_view text;
  std::string_view gguf;         ///< after "blk.N." for roles of a layer
  std::string_view hugging_face; ///< after "model.layers.N." for roles of a layer
};

constexpr std::array<role_names, num_tensor_roles> all_roles = {{
    {tensor_role::token_embedding, "token_embedding", "token_embd.weight", "model.embed_tokens.weight"},
    {tensor_role::output_norm, "output_norm", "output_norm.weight", "model.norm.weight"},
    {tensor_role::output, "output", "output.weight", "lm_head.weight"},
    {tensor_role::attention_norm, "attention_norm", "attn_norm.weight", "input_layernorm.weight"},
    {tensor_role::q, "q", "attn_q.weight", "self_attn.q_proj.weight"},
    {tensor_role::k, "k", "attn_k.weight", "self_attn.k_proj.weight"},
    {tensor_role::v, "v", "attn_v.weight", "self_attn.v_proj.weight"},
    {tensor_role::q_bias, "q_bias", "attn_q.bias", "self_attn.q_proj.bias"},
    {tensor_role::k_bias, "k_bias", "attn_k.bias", "self_attn.k_proj.bias"},
    {tensor_role::v_bias, "v_bias", "attn_v.bias", "self_attn.v_proj.bias"},
    {tensor_role::q_norm, "q_norm", "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {tensor_role::k_norm, "k_norm", "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {tensor_role::attention_output, "attention_output", "attn_output.weight", "self_attn.o_proj.weight"},
    {tensor_role::attention_output_bias, "attention_output_bias", "attn_output.bias",
     "self_attn.o_proj.bias"},
    {tensor_role::post_attention_norm, "post_attention_norm", "post_attention_norm.weight",
     "post_attention_layernorm.weight"},
    {tensor_role::ffn_norm, "ffn_norm", "ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {tensor_role::ffn_gate, "ffn_gate", "ffn_gate.weight", "mlp.gate_proj.weight"},
    {tensor_role::ffn_up, "ffn_up", "ffn_up.weight", "mlp.up_proj.weight"},
    {tensor_role::ffn_down, "ffn_down", "ffn_down.weight", "mlp.down_proj.weight"},
    {tensor_role::post_ffn_norm, "post_ffn_norm", "post_ffw_norm.weight",
     "post_feedforward_layernorm.weight"},
    {tensor_role::conv_in, "conv_in", "shortconv.in_proj.weight", "conv.in_proj.weight"},
    {tensor_role::conv_in_bias, "conv_in_bias", "shortconv.in_proj.bias", "conv.in_proj.bias"},
    {tensor_role::conv_taps, "conv_taps", "shortconv.conv.weight", "conv.conv.weight"},
    {tensor_role::conv_bias, "conv_bias", "shortconv.conv.bias", "conv.conv.bias"},
    {tensor_role::conv_out, "conv_out", "shortconv.out_proj.weight", "conv.out_proj.weight"},
    {tensor_role::conv_out_bias, "conv_out_bias", "shortconv.out_proj.bias", "conv.out_proj.bias"},
    {tensor_role::delta_qkv, "delta_qkv", "attn_qkv.weight", "linear_attn.in_proj_qkv.weight"},
    {tensor_role::delta_gate, "delta_gate", "attn_gate.weight", "linear_attn.in_proj_z.weight"},
    {tensor_role::delta_beta, "delta_beta", "ssm_beta.weight", "linear_attn.in_proj_b.weight"},
    {tensor_role::delta_alpha, "delta_alpha", "ssm_alpha.weight", "linear_attn.in_proj_a.weight"},
    {tensor_role::delta_taps, "delta_taps", "ssm_conv1d.weight", "linear_attn.conv1d.weight"},
    {tensor_role::delta_dt_bias, "delta_dt_bias", "ssm_dt.bias", "linear_attn.dt_bias"},
    {tensor_role::delta_decay, "delta_decay", "ssm_a", "linear_attn.A_log"},
    {tensor_role::delta_norm, "delta_norm", "ssm_norm.weight", "linear_attn.norm.weight"},
    {tensor_role::delta_out, "delta_out", "ssm_out.weight", "linear_attn.out_proj.weight"},
    {tensor_role::ffn_router, "ffn_router", "ffn_gate_inp.weight", "mlp.gate.weight"},
    {tensor_role::ffn_shared_scale, "ffn_shared_scale", "ffn_gate_inp_shexp.weight",
     "mlp.shared_expert_gate.weight"},
    {tensor_role::ffn_gate_shared, "ffn_gate_shared", "ffn_gate_shexp.weight",
     "mlp.shared_expert.gate_proj.weight"},
    {tensor_role::ffn_up_shared, "ffn_up_shared", "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {tensor_role::ffn_down_shared, "ffn_down_shared", "ffn_down_shexp.weight",
     "mlp.shared_expert.down_proj.weight"},
    {tensor_role::ffn_selection_bias, "ffn_selection_bias", "exp_probs_b.bias", "feed_forward.expert_bias"},
    {tensor_role::ffn_gate_experts, "ffn_gate_experts", "ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {tensor_role::ffn_up_experts, "ffn_up_experts", "ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {tensor_role::ffn_down_experts, "ffn_down_experts", "ffn_down_exps.weight", "mlp.experts.down_proj"},
}};

/// Names of LFM2 that differ from those of the other families.
constexpr role_names lfm2_roles[] = {
    {tensor_role::output_norm, "", "token_embd_norm.weight", "model.embedding_norm.weight"},
    {tensor_role::attention_norm, "", "attn_norm.weight", "operator_norm.weight"},
    {tensor_role::q_norm, "", "attn_q_norm.weight", "self_attn.q_layernorm.weight"},
    {tensor_role::k_norm, "", "attn_k_norm.weight", "self_attn.k_layernorm.weight"},
    {tensor_role::attention_output, "", "attn_output.weight", "self_attn.out_proj.weight"},
    {tensor_role::ffn_norm, "", "ffn_norm.weight", "ffn_norm.weight"},
    {tensor_role::ffn_gate, "", "ffn_gate.weight", "feed_forward.w1.weight"},
    {tensor_role::ffn_up, "", "ffn_up.weight", "feed_forward.w3.weight"},
    {tensor_role::ffn_down, "", "ffn_down.weight", "feed_forward.w2.weight"},
    {tensor_role::ffn_router, "", "ffn_gate_inp.weight", "feed_forward.gate.weight"},
    {tensor_role::ffn_gate_experts, "", "ffn_gate_exps.weight", "feed_forward.experts.gate_up_proj"},
    {tensor_role::ffn_up_experts, "", "ffn_up_exps.weight", "feed_forward.experts.gate_up_proj"},
    {tensor_role::ffn_down_experts, "", "ffn_down_exps.weight", "feed_forward.experts.down_proj"},
};

/// GGUF files of Qwen3.5 name the norm before the feed-forward block after the block that precedes it.
constexpr role_names qwen35_roles[] = {
    {tensor_role::ffn_norm, "", "post_attention_norm.weight", "post_attention_layernorm.weight"},
};

constexpr role_names qwen3next_roles[] = {
    {tensor_role::ffn_norm, "", "post_attention_norm.weight", "post_attention_layernorm.weight"},
    {tensor_role::delta_qkv, "", "attn_qkv.weight", "linear_attn.in_proj_qkvz.weight"},
    {tensor_role::delta_beta, "", "ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
};

/// The names of a family that differ from those of the others.
std::span<const role_names> own_names(architecture arch) noexcept {
  if (is_lfm2(arch)) return lfm2_roles;
  if (arch == architecture::qwen35 || arch == architecture::qwen35moe) return qwen35_roles;
  if (arch == architecture::qwen3next) return qwen3next_roles;
  return {};
}

const role_names& names_of(tensor_role role, architecture arch) noexcept {
  for (const role_names& own : own_names(arch))
    if (own.role == role) return own;
  return all_roles[static_cast<std::size_t>(role)];
}

} // namespace

std::string_view to_string(tensor_role role) noexcept {
  return all_roles[static_cast<std::size_t>(role)].text;
}

bool is_layer_role(tensor_role role) noexcept { return role >= tensor_role::attention_norm; }

bool is_matrix_role(tensor_role role) noexcept {
  switch (role) {
  case tensor_role::token_embedding:
  case tensor_role::output:
  case tensor_role::q:
  case tensor_role::k:
  case tensor_role::v:
  case tensor_role::attention_output:
  case tensor_role::ffn_gate:
  case tensor_role::ffn_up:
  case tensor_role::ffn_down:
  case tensor_role::conv_in:
  case tensor_role::conv_out:
  case tensor_role::delta_qkv:
  case tensor_role::delta_gate:
  case tensor_role::delta_beta:
  case tensor_role::delta_alpha:
  case tensor_role::delta_out:
  case tensor_role::ffn_router:
  case tensor_role::ffn_shared_scale:
  case tensor_role::ffn_gate_shared:
  case tensor_role::ffn_up_shared:
  case tensor_role::ffn_down_shared:
  case tensor_role::ffn_gate_experts:
  case tensor_role::ffn_up_experts:
  case tensor_role::ffn_down_experts:
    return true;
  default:
    return false;
  }
}

bool is_norm_role(tensor_role role) noexcept {
  switch (role) {
  case tensor_role::output_norm:
  case tensor_role::attention_norm:
  case tensor_role::q_norm:
  case tensor_role::k_norm:
  case tensor_role::post_attention_norm:
  case tensor_role::ffn_norm:
  case tensor_role::post_ffn_norm:
    return true;
  default:
    return false;
  }
}

namespace {

constexpr tensor_shape no_tensor;

bool is_between(tensor_role role, tensor_role first, tensor_role last) noexcept {
  return role >= first && role <= last;
}

/// The shape of roles that only layers with attention have; nullopt for other roles.
std::optional<tensor_shape> attention_shape(const model_config& config, tensor_role role) noexcept {
  switch (role) {
  case tensor_role::q:
    return tensor_shape{(config.attention_gate ? 2 : 1) * std::uint64_t{config.q_size()}, config.hidden_size};
  case tensor_role::k:
  case tensor_role::v:
    return tensor_shape{config.kv_size(), config.hidden_size};
  case tensor_role::q_bias:
    return config.qkv_bias ? tensor_shape{1, config.q_size()} : no_tensor;
  case tensor_role::k_bias:
  case tensor_role::v_bias:
    return config.qkv_bias ? tensor_shape{1, config.kv_size()} : no_tensor;
  case tensor_role::q_norm:
    if (!config.qk_norm) return no_tensor;
    return tensor_shape{1, config.qk_norm_of_rows ? config.q_size() : config.head_dim};
  case tensor_role::k_norm:
    if (!config.qk_norm) return no_tensor;
    return tensor_shape{1, config.qk_norm_of_rows ? config.kv_size() : config.head_dim};
  case tensor_role::attention_output:
    return tensor_shape{config.hidden_size, config.q_size()};
  case tensor_role::attention_output_bias:
    return config.attention_output_bias ? tensor_shape{1, config.hidden_size} : no_tensor;
  default:
    return std::nullopt;
  }
}

/// The shape of roles that layers with a short convolution have.
tensor_shape conv_shape(const model_config& config, tensor_role role) noexcept {
  const std::uint64_t hidden = config.hidden_size;
  switch (role) {
  case tensor_role::conv_in:
    return {3 * hidden, hidden};
  case tensor_role::conv_in_bias:
    return config.conv.bias ? tensor_shape{1, 3 * hidden} : no_tensor;
  case tensor_role::conv_taps:
    return {hidden, config.conv.num_taps};
  case tensor_role::conv_out:
    return {hidden, hidden};
  default:
    return config.conv.bias ? tensor_shape{1, hidden} : no_tensor;
  }
}

/// The shape of roles that layers with a gated delta rule have.
tensor_shape delta_shape(const model_config& config, tensor_role role) noexcept {
  const device::delta_heads& heads = config.delta;
  switch (role) {
  case tensor_role::delta_qkv:
    return {config.delta_channels() + (config.packing.fuses_gate ? heads.values_size() : 0),
            config.hidden_size};
  case tensor_role::delta_gate:
    return config.packing.fuses_gate ? no_tensor : tensor_shape{heads.values_size(), config.hidden_size};
  case tensor_role::delta_beta:
    return {(config.packing.fuses_beta ? 2 : 1) * std::uint64_t{heads.num_values}, config.hidden_size};
  case tensor_role::delta_alpha:
    return config.packing.fuses_beta ? no_tensor : tensor_shape{heads.num_values, config.hidden_size};
  case tensor_role::delta_taps:
    return {config.delta_channels(), config.conv.num_taps};
  case tensor_role::delta_norm:
    return {1, heads.value_dim};
  case tensor_role::delta_out:
    return {config.hidden_size, heads.values_size()};
  default:
    return {1, heads.num_values};
  }
}

/// The shape of roles that layers with a mixture of experts have.
tensor_shape mixture_shape(const model_config& config, tensor_role role) noexcept {
  const expert_config& experts = config.experts;
  const std::uint64_t hidden = config.hidden_size, shared = experts.shared_ffn_size;
  switch (role) {
  case tensor_role::ffn_router:
    return {experts.routing.num_experts, hidden};
  case tensor_role::ffn_selection_bias:
    return experts.selection_bias ? tensor_shape{1, experts.routing.num_experts} : no_tensor;
  case tensor_role::ffn_shared_scale:
    return shared != 0 ? tensor_shape{1, hidden} : no_tensor;
  case tensor_role::ffn_gate_shared:
  case tensor_role::ffn_up_shared:
    return shared != 0 ? tensor_shape{shared, hidden} : no_tensor;
  case tensor_role::ffn_down_shared:
    return shared != 0 ? tensor_shape{hidden, shared} : no_tensor;
  case tensor_role::ffn_down_experts:
    return {hidden, experts.ffn_size};
  default:
    return {experts.ffn_size, hidden};
  }
}

} // namespace

tensor_shape shape_of(const model_config& config, tensor_role role, std::uint32_t layer) noexcept {
  const std::uint64_t hidden = config.hidden_size;
  if (const auto shape = attention_shape(config, role))
    return config.has_attention(layer) ? *shape : no_tensor;
  if (is_between(role, tensor_role::conv_in, tensor_role::conv_out_bias))
    return config.kind_of(layer) == layer_kind::short_conv ? conv_shape(config, role) : no_tensor;
  if (is_between(role, tensor_role::delta_qkv, tensor_role::delta_out))
    return config.kind_of(layer) == layer_kind::gated_delta ? delta_shape(config, role) : no_tensor;
  if (is_between(role, tensor_role::ffn_router, tensor_role::ffn_down_experts))
    return config.has_experts(layer) ? mixture_shape(config, role) : no_tensor;
  switch (role) {
  case tensor_role::token_embedding:
    return {config.vocab_size, hidden};
  case tensor_role::output:
    return config.tied_embeddings ? no_tensor : tensor_shape{config.vocab_size, hidden};
  case tensor_role::attention_norm:
  case tensor_role::ffn_norm:
    return config.pre_norms ? tensor_shape{1, hidden} : no_tensor;
  case tensor_role::post_attention_norm:
  case tensor_role::post_ffn_norm:
    return config.post_norms ? tensor_shape{1, hidden} : no_tensor;
  case tensor_role::ffn_gate:
  case tensor_role::ffn_up:
    return config.has_experts(layer) ? no_tensor : tensor_shape{config.ffn_size, hidden};
  case tensor_role::ffn_down:
    return config.has_experts(layer) ? no_tensor : tensor_shape{hidden, config.ffn_size};
  default: // the final norm
    return {1, hidden};
  }
}

std::string shape_text(std::span<const std::uint64_t> sizes) {
  std::string text;
  for (const std::uint64_t size : sizes) text.append("[").append(std::to_string(size)).append("]");
  return text;
}

std::string_view tensor_name(tensor_role role, tensor_naming naming, const model_config& config) noexcept {
  const role_names& names = names_of(role, config.arch);
  if (naming == tensor_naming::gguf)
    return role == tensor_role::delta_qkv && config.packing.fuses_gate ? "ssm_in.weight" : names.gguf;
  // A model with two norms in a layer names the second norm after the op before it, and not after the op that
  // follows.
  if (role == tensor_role::ffn_norm && !config.post_norms && !is_lfm2(config.arch))
    return "post_attention_layernorm.weight";
  return names.hugging_face;
}

std::string_view usual_gguf_name(std::string_view name, architecture arch) noexcept {
  // Of Ollama's converters.
  if (name == "ssm_dt") return "ssm_dt.bias";
  if (name == "output_norm.weight" && is_lfm2(arch)) return "token_embd_norm.weight";
  return name;
}

std::optional<std::uint32_t> take_number(std::string_view& name) noexcept {
  std::uint32_t number = 0;
  const char* const last = name.data() + name.size();
  const auto [end, problem] = std::from_chars(name.data(), last, number);
  const bool leading_zero = end - name.data() > 1 && name[0] == '0';
  if (problem != std::errc() || leading_zero || end == last || *end != '.') return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end + 1 - name.data()));
  return number;
}

std::string_view layer_prefix(tensor_naming naming) noexcept {
  return naming == tensor_naming::gguf ? "blk." : "model.layers.";
}

} // namespace paceline::model
