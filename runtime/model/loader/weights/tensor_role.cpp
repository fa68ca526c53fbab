#include "runtime/model/loader/weights/tensor_role.hpp"

#include "runtime/model/loader/families/lfm2_config.hpp"

#include <array>
#include <charconv>
#include <optional>

namespace paceline::model {

namespace {

/// A role's names in files.
struct role_names {
  tensor_role role;
  std::string_view gguf;         ///< after "blk.N." for roles of a layer
  std::string_view hugging_face; ///< after "model.layers.N." for roles of a layer
};

/// What a role's tensor is.
enum class role_kind : std::uint8_t {
  matrix, ///< packed by a device
  norm,   ///< a vector of which some files store the factors minus one
  vector, ///< another vector
  taps,   ///< of a convolution
};

/// What has a tensor of a role.
enum class role_owner : std::uint8_t {
  model,       ///< the model, once
  layer,       ///< every layer
  attention,   ///< layers with attention
  short_conv,  ///< layers with a short convolution
  gated_delta, ///< layers with a gated delta rule
  mixture,     ///< layers with a mixture of experts
};

struct role_row {
  role_names names; ///< families with other names have a table below
  std::string_view text;
  role_kind kind;
  role_owner owner;
};

// clang-format off
constexpr std::array<role_row, num_tensor_roles> make_roles() noexcept {
  using role = tensor_role;
  using enum role_kind;
  using enum role_owner;
  return {{
      {{role::token_embedding, "token_embd.weight", "model.embed_tokens.weight"}, "token_embedding", matrix, model},
      {{role::output_norm, "output_norm.weight", "model.norm.weight"}, "output_norm", norm, model},
      {{role::output, "output.weight", "lm_head.weight"}, "output", matrix, model},
      {{role::attention_norm, "attn_norm.weight", "input_layernorm.weight"}, "attention_norm", norm, layer},
      {{role::q, "attn_q.weight", "self_attn.q_proj.weight"}, "q", matrix, attention},
      {{role::k, "attn_k.weight", "self_attn.k_proj.weight"}, "k", matrix, attention},
      {{role::v, "attn_v.weight", "self_attn.v_proj.weight"}, "v", matrix, attention},
      {{role::q_bias, "attn_q.bias", "self_attn.q_proj.bias"}, "q_bias", vector, attention},
      {{role::k_bias, "attn_k.bias", "self_attn.k_proj.bias"}, "k_bias", vector, attention},
      {{role::v_bias, "attn_v.bias", "self_attn.v_proj.bias"}, "v_bias", vector, attention},
      {{role::q_norm, "attn_q_norm.weight", "self_attn.q_norm.weight"}, "q_norm", norm, attention},
      {{role::k_norm, "attn_k_norm.weight", "self_attn.k_norm.weight"}, "k_norm", norm, attention},
      {{role::attention_output, "attn_output.weight", "self_attn.o_proj.weight"}, "attention_output", matrix, attention},
      {{role::attention_output_bias, "attn_output.bias", "self_attn.o_proj.bias"}, "attention_output_bias", vector, attention},
      {{role::post_attention_norm, "post_attention_norm.weight", "post_attention_layernorm.weight"}, "post_attention_norm", norm, layer},
      {{role::ffn_norm, "ffn_norm.weight", "pre_feedforward_layernorm.weight"}, "ffn_norm", norm, layer},
      {{role::ffn_gate, "ffn_gate.weight", "mlp.gate_proj.weight"}, "ffn_gate", matrix, layer},
      {{role::ffn_up, "ffn_up.weight", "mlp.up_proj.weight"}, "ffn_up", matrix, layer},
      {{role::ffn_down, "ffn_down.weight", "mlp.down_proj.weight"}, "ffn_down", matrix, layer},
      {{role::post_ffn_norm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight"}, "post_ffn_norm", norm, layer},
      {{role::conv_in, "shortconv.in_proj.weight", "conv.in_proj.weight"}, "conv_in", matrix, short_conv},
      {{role::conv_in_bias, "shortconv.in_proj.bias", "conv.in_proj.bias"}, "conv_in_bias", vector, short_conv},
      {{role::conv_taps, "shortconv.conv.weight", "conv.conv.weight"}, "conv_taps", taps, short_conv},
      {{role::conv_bias, "shortconv.conv.bias", "conv.conv.bias"}, "conv_bias", vector, short_conv},
      {{role::conv_out, "shortconv.out_proj.weight", "conv.out_proj.weight"}, "conv_out", matrix, short_conv},
      {{role::conv_out_bias, "shortconv.out_proj.bias", "conv.out_proj.bias"}, "conv_out_bias", vector, short_conv},
      {{role::delta_qkv, "attn_qkv.weight", "linear_attn.in_proj_qkv.weight"}, "delta_qkv", matrix, gated_delta},
      {{role::delta_gate, "attn_gate.weight", "linear_attn.in_proj_z.weight"}, "delta_gate", matrix, gated_delta},
      {{role::delta_beta, "ssm_beta.weight", "linear_attn.in_proj_b.weight"}, "delta_beta", matrix, gated_delta},
      {{role::delta_alpha, "ssm_alpha.weight", "linear_attn.in_proj_a.weight"}, "delta_alpha", matrix, gated_delta},
      {{role::delta_taps, "ssm_conv1d.weight", "linear_attn.conv1d.weight"}, "delta_taps", taps, gated_delta},
      {{role::delta_dt_bias, "ssm_dt.bias", "linear_attn.dt_bias"}, "delta_dt_bias", vector, gated_delta},
      {{role::delta_decay, "ssm_a", "linear_attn.A_log"}, "delta_decay", vector, gated_delta},
      {{role::delta_norm, "ssm_norm.weight", "linear_attn.norm.weight"}, "delta_norm", vector, gated_delta},
      {{role::delta_out, "ssm_out.weight", "linear_attn.out_proj.weight"}, "delta_out", matrix, gated_delta},
      {{role::ffn_router, "ffn_gate_inp.weight", "mlp.gate.weight"}, "ffn_router", matrix, mixture},
      {{role::ffn_shared_scale, "ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"}, "ffn_shared_scale", matrix, mixture},
      {{role::ffn_gate_shared, "ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"}, "ffn_gate_shared", matrix, mixture},
      {{role::ffn_up_shared, "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"}, "ffn_up_shared", matrix, mixture},
      {{role::ffn_down_shared, "ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"}, "ffn_down_shared", matrix, mixture},
      {{role::ffn_selection_bias, "exp_probs_b.bias", "feed_forward.expert_bias"}, "ffn_selection_bias", vector, mixture},
      {{role::ffn_gate_experts, "ffn_gate_exps.weight", "mlp.experts.gate_up_proj"}, "ffn_gate_experts", matrix, mixture},
      {{role::ffn_up_experts, "ffn_up_exps.weight", "mlp.experts.gate_up_proj"}, "ffn_up_experts", matrix, mixture},
      {{role::ffn_down_experts, "ffn_down_exps.weight", "mlp.experts.down_proj"}, "ffn_down_experts", matrix, mixture},
  }};
}
// clang-format on

constexpr std::array<role_row, num_tensor_roles> all_roles = make_roles();

constexpr bool is_in_order() noexcept {
  for (std::size_t i = 0; i < all_roles.size(); ++i)
    if (static_cast<std::size_t>(all_roles[i].names.role) != i) return false;
  return true;
}
static_assert(is_in_order(), "a role's row is found by its number");

const role_row& row_of(tensor_role role) noexcept { return all_roles[static_cast<std::size_t>(role)]; }

/// Names of LFM2 that differ from those of the other families.
constexpr role_names lfm2_roles[] = {
    {tensor_role::output_norm, "token_embd_norm.weight", "model.embedding_norm.weight"},
    {tensor_role::attention_norm, "attn_norm.weight", "operator_norm.weight"},
    {tensor_role::q_norm, "attn_q_norm.weight", "self_attn.q_layernorm.weight"},
    {tensor_role::k_norm, "attn_k_norm.weight", "self_attn.k_layernorm.weight"},
    {tensor_role::attention_output, "attn_output.weight", "self_attn.out_proj.weight"},
    {tensor_role::ffn_norm, "ffn_norm.weight", "ffn_norm.weight"},
    {tensor_role::ffn_gate, "ffn_gate.weight", "feed_forward.w1.weight"},
    {tensor_role::ffn_up, "ffn_up.weight", "feed_forward.w3.weight"},
    {tensor_role::ffn_down, "ffn_down.weight", "feed_forward.w2.weight"},
    {tensor_role::ffn_router, "ffn_gate_inp.weight", "feed_forward.gate.weight"},
    {tensor_role::ffn_gate_experts, "ffn_gate_exps.weight", "feed_forward.experts.gate_up_proj"},
    {tensor_role::ffn_up_experts, "ffn_up_exps.weight", "feed_forward.experts.gate_up_proj"},
    {tensor_role::ffn_down_experts, "ffn_down_exps.weight", "feed_forward.experts.down_proj"},
};

/// GGUF files of Qwen3.5 name the norm before the feed-forward block after the block that precedes it.
constexpr role_names qwen35_roles[] = {
    {tensor_role::ffn_norm, "post_attention_norm.weight", "post_attention_layernorm.weight"},
};

constexpr role_names qwen3next_roles[] = {
    {tensor_role::ffn_norm, "post_attention_norm.weight", "post_attention_layernorm.weight"},
    {tensor_role::delta_qkv, "attn_qkv.weight", "linear_attn.in_proj_qkvz.weight"},
    {tensor_role::delta_beta, "ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
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
  return row_of(role).names;
}

} // namespace

std::string_view to_string(tensor_role role) noexcept { return row_of(role).text; }
bool is_layer_role(tensor_role role) noexcept { return row_of(role).owner != role_owner::model; }
bool is_matrix_role(tensor_role role) noexcept { return row_of(role).kind == role_kind::matrix; }
bool is_norm_role(tensor_role role) noexcept { return row_of(role).kind == role_kind::norm; }
bool is_taps_role(tensor_role role) noexcept { return row_of(role).kind == role_kind::taps; }

namespace {

constexpr tensor_shape no_tensor;

// The shapes of the roles of an owner, in a layer that it has.

tensor_shape attention_shape(const model_config& config, tensor_role role) noexcept {
  switch (role) {
  case tensor_role::q:
    return {(config.attention_gate ? 2 : 1) * std::uint64_t{config.q_size()}, config.hidden_size};
  case tensor_role::k:
  case tensor_role::v:
    return {config.kv_size(), config.hidden_size};
  case tensor_role::q_bias:
    return config.qkv_bias ? tensor_shape{1, config.q_size()} : no_tensor;
  case tensor_role::k_bias:
  case tensor_role::v_bias:
    return config.qkv_bias ? tensor_shape{1, config.kv_size()} : no_tensor;
  case tensor_role::q_norm:
    if (!config.qk_norm) return no_tensor;
    return {1, config.qk_norm_of_rows ? config.q_size() : config.head_dim};
  case tensor_role::k_norm:
    if (!config.qk_norm) return no_tensor;
    return {1, config.qk_norm_of_rows ? config.kv_size() : config.head_dim};
  case tensor_role::attention_output:
    return {config.hidden_size, config.q_size()};
  default: // the bias of the output
    return config.attention_output_bias ? tensor_shape{1, config.hidden_size} : no_tensor;
  }
}

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

tensor_shape model_shape(const model_config& config, tensor_role role) noexcept {
  switch (role) {
  case tensor_role::token_embedding:
    return {config.vocab_size, config.hidden_size};
  case tensor_role::output:
    return config.tied_embeddings ? no_tensor : tensor_shape{config.vocab_size, config.hidden_size};
  default: // the final norm
    return {1, config.hidden_size};
  }
}

tensor_shape layer_shape(const model_config& config, tensor_role role, bool has_experts) noexcept {
  const std::uint64_t hidden = config.hidden_size;
  switch (role) {
  case tensor_role::attention_norm:
  case tensor_role::ffn_norm:
    return config.pre_norms ? tensor_shape{1, hidden} : no_tensor;
  case tensor_role::ffn_gate:
  case tensor_role::ffn_up:
    return has_experts ? no_tensor : tensor_shape{config.ffn_size, hidden};
  case tensor_role::ffn_down:
    return has_experts ? no_tensor : tensor_shape{hidden, config.ffn_size};
  default: // the norms after blocks
    return config.post_norms ? tensor_shape{1, hidden} : no_tensor;
  }
}

} // namespace

tensor_shape shape_of(const model_config& config, tensor_role role, std::uint32_t layer) noexcept {
  switch (row_of(role).owner) {
  case role_owner::model:
    return model_shape(config, role);
  case role_owner::layer:
    return layer_shape(config, role, config.has_experts(layer));
  case role_owner::attention:
    return config.has_attention(layer) ? attention_shape(config, role) : no_tensor;
  case role_owner::short_conv:
    return config.kind_of(layer) == layer_kind::short_conv ? conv_shape(config, role) : no_tensor;
  case role_owner::gated_delta:
    return config.kind_of(layer) == layer_kind::gated_delta ? delta_shape(config, role) : no_tensor;
  case role_owner::mixture:
    return config.has_experts(layer) ? mixture_shape(config, role) : no_tensor;
  }
  return no_tensor;
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
