#include "runtime/model/decoder_layer.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/op_add_normed.hpp"
#include "runtime/device/op_attention.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_expert_mixture.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_gated_matmul.hpp"
#include "runtime/device/op_glu.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/op_qkv.hpp"
#include "runtime/device/op_rms_norm.hpp"

#include <array>
#include <cmath>

namespace paceline::model {

std::uint64_t expert_weights::bytes_of_every_row() const noexcept {
  std::uint64_t bytes = router->size_bytes();
  for (const auto* matrix : {&shared_scale, &shared_gate, &shared_up, &shared_down})
    if (*matrix) bytes += (*matrix)->size_bytes();
  return bytes;
}

std::uint64_t layer_weights::matrix_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto* matrix :
       {&q, &k, &v, &attention_output, &attention_gate, &conv.in, &conv.out, &delta.qkv, &delta.gate,
        &delta.beta, &delta.alpha, &delta.out, &ffn_gate, &ffn_up, &ffn_down})
    if (*matrix) bytes += (*matrix)->size_bytes();
  if (experts) bytes += experts->size_bytes();
  return bytes;
}

std::uint64_t layer_weights::bytes_per_row(std::uint32_t num_used) const noexcept {
  if (!experts) return matrix_bytes();
  const std::uint64_t of_experts = experts->size_bytes() - experts->bytes_of_every_row();
  return matrix_bytes() - of_experts + of_experts / experts->gate->size() * num_used;
}

void decoder_layers::norm(const float* x, float* y, const float* weight, std::uint32_t num_rows) {
  const std::uint32_t width = config_.hidden_size;
  ops_.rms_norm({x, width, y, width, weight, num_rows, 1, width, config_.norm_epsilon});
}

/// hidden += x * weights^T + bias. Some families first apply a norm or a factor to the product.
void decoder_layers::add_to_hidden(const float* x, std::size_t x_stride, const device::matrix& weights,
                                   const float* bias, const float* post_norm) {
  const bool direct = post_norm == nullptr && config_.residual_scale == 1;
  const std::uint32_t width = config_.hidden_size;
  const std::array outputs{
      device::matmul_output{&weights, direct ? memory_.hidden : memory_.normed, width, bias, direct}};
  ops_.matmul({x, x_stride, num_rows(), weights.num_cols(), false, outputs});
  if (direct) return;
  if (post_norm == nullptr)
    ops_.add({memory_.hidden, width, memory_.normed, width, num_rows(), width, nullptr, 0,
              config_.residual_scale});
  else
    ops_.add_normed(
        {memory_.normed, width, memory_.hidden, width, post_norm, num_rows(), width, config_.norm_epsilon});
}

void decoder_layers::attend(const layer_weights& weights, const attention_input& input,
                            const attention_view& view) {
  project(weights, input, view);
  run_attention(batch_, 0, view);
  add_attended(weights);
}

void decoder_layers::project(const layer_weights& weights, const attention_input& input,
                             const attention_view& view) {
  device::qkv_args qkv;
  qkv.batch = &batch_;
  qkv.x = input.x;
  qkv.x_stride = input.num_cols;
  qkv.num_cols = input.num_cols;
  qkv.norm = {input.norm, config_.norm_epsilon, memory_.normed};
  if (weights.attention_gate) {
    norm(input.x, memory_.normed, input.norm, num_rows());
    const std::array gates{
        device::matmul_output{weights.attention_gate.get(), memory_.gates, config_.q_size(), nullptr, false}};
    ops_.matmul({memory_.normed, input.num_cols, num_rows(), input.num_cols, weights.precise_attention_inputs,
                 gates});
    qkv.x = memory_.normed;
    qkv.norm = {};
  }
  qkv.two_planes = weights.precise_attention_inputs;
  qkv.q = {weights.q.get(), weights.q_bias, weights.q_norm};
  qkv.k = {weights.k.get(), weights.k_bias, weights.k_norm};
  qkv.v = {weights.v.get(), weights.v_bias};
  qkv.num_heads = config_.num_heads;
  qkv.head_epsilon = config_.norm_epsilon;
  qkv.norms_rows = config_.qk_norm_of_rows;
  qkv.table = view.rope_table;
  qkv.query_table = view.query_rope_table;
  qkv.num_pairs = view.rope_table != nullptr ? config_.num_rotated() / 2 : 0;
  qkv.layout = config_.layout;
  qkv.cells = view.cells;
  qkv.out = memory_.qkv;
  ops_.qkv(qkv);
}

void decoder_layers::run_attention(const device::row_batch& rows, std::uint32_t first,
                                   const attention_view& view) {
  const std::size_t queries = config_.q_size(), stride = queries + std::size_t{2} * config_.kv_size();
  ops_.attention({&rows, view.cells, memory_.qkv + first * stride, stride, memory_.attended + first * queries,
                  queries, config_.num_heads, config_.attention_scale, 0, view.window});
}

void decoder_layers::add_attended(const layer_weights& weights) {
  if (weights.attention_gate)
    ops_.glu({memory_.gates, memory_.attended, config_.q_size(), memory_.attended, config_.q_size(),
              num_rows(), config_.q_size(), device::activation::sigmoid});
  add_to_hidden(memory_.attended, config_.q_size(), *weights.attention_output, weights.attention_output_bias,
                weights.post_attention_norm);
}

void decoder_layers::convolve(const layer_weights& weights, const device::conv_states& states) {
  const std::uint32_t width = config_.hidden_size;
  const std::size_t stride = 3 * std::size_t{width};
  norm(memory_.hidden, memory_.normed, weights.attention_norm, num_rows());
  const std::array products{
      device::matmul_output{weights.conv.in.get(), memory_.conv, stride, weights.conv.in_bias, false}};
  ops_.matmul({memory_.normed, width, num_rows(), width, weights.precise_attention_inputs, products});
  float* const b = memory_.conv; // the columns of a row are [B | C | u]
  ops_.short_conv({batch_.states, b + 2 * std::size_t{width}, b, b + width, b, stride, width,
                   config_.conv.num_taps, weights.conv.taps, weights.conv.bias, states});
  add_to_hidden(memory_.conv, stride, *weights.conv.out, weights.conv.out_bias, weights.post_attention_norm);
}

std::size_t delta_row_size(const model_config& config) noexcept {
  return 2 * (config.delta_channels() + config.delta.values_size() + config.delta.num_values);
}

void decoder_layers::apply_delta_rule(const layer_weights& weights, const delta_layer_states& states,
                                      const float* unit_norm) {
  constexpr float key_epsilon = 1e-6F; // added to a squared length
  const device::delta_heads& heads = config_.delta;
  const std::uint32_t width = config_.hidden_size, channels = config_.delta_channels();
  const std::size_t stride = delta_row_size(config_), values = heads.values_size();
  float* const in = memory_.delta;
  float* const mixed = in + channels; // queries, keys and values
  float* const gate = mixed + channels;
  float* const out = gate + values;
  float* const beta = out + values;
  float* const alpha = beta + heads.num_values;
  const delta_weights& delta = weights.delta;
  norm(memory_.hidden, memory_.normed, weights.attention_norm, num_rows());
  const std::array products{device::matmul_output{delta.qkv.get(), in, stride, nullptr, false},
                            device::matmul_output{delta.gate.get(), gate, stride, nullptr, false},
                            device::matmul_output{delta.beta.get(), beta, stride, nullptr, false},
                            device::matmul_output{delta.alpha.get(), alpha, stride, nullptr, false}};
  ops_.matmul({memory_.normed, width, num_rows(), width, weights.precise_attention_inputs, products});
  ops_.short_conv({batch_.states, in, nullptr, nullptr, mixed, stride, channels, config_.conv.num_taps,
                   delta.taps, nullptr, states.conv});
  ops_.glu({mixed, nullptr, stride, mixed, stride, num_rows(), channels, device::activation::silu});
  ops_.rms_norm({mixed, stride, mixed, stride, unit_norm, num_rows(), 2 * heads.num_keys, heads.key_dim,
                 key_epsilon / static_cast<float>(heads.key_dim)});
  const float scale = 1 / std::sqrt(static_cast<float>(heads.key_dim));
  ops_.gated_delta({batch_.states, heads, mixed, beta, alpha, out, stride, delta.decay, delta.dt_bias, scale,
                    states.matrices});
  ops_.rms_norm({out, stride, out, stride, delta.norm, num_rows(), heads.num_values, heads.value_dim,
                 config_.norm_epsilon});
  ops_.glu({gate, out, stride, out, stride, num_rows(), static_cast<std::uint32_t>(values),
            device::activation::silu});
  add_to_hidden(out, stride, *delta.out, nullptr, weights.post_attention_norm);
}

feed_forward_sizes feed_forward_row_sizes(const model_config& config) noexcept {
  const expert_config& experts = config.experts;
  const bool mixes = config.num_expert_layers() != 0, shares = mixes && experts.shared_ffn_size != 0;
  return {config.num_dense_layers() != 0 ? 2 * std::size_t{config.ffn_size} : 0,
          mixes ? device::expert_values_per_row(experts.routing, experts.ffn_size, config.hidden_size) : 0,
          shares ? 2 * std::size_t{experts.shared_ffn_size} : 0,
          shares ? std::size_t{config.hidden_size} + 1 : 0};
}

void decoder_layers::feed_forward(const layer_weights& weights) {
  if (weights.experts) return mix_experts(weights);
  const std::size_t stride = 2 * std::size_t{config_.ffn_size};
  ops_.gated_matmul({memory_.hidden,
                     config_.hidden_size,
                     num_rows(),
                     config_.hidden_size,
                     {weights.ffn_norm, config_.norm_epsilon, memory_.normed},
                     weights.precise_ffn_inputs,
                     weights.ffn_gate.get(),
                     weights.ffn_up.get(),
                     memory_.gate_up,
                     memory_.gate_up,
                     stride,
                     config_.activation});
  add_to_hidden(memory_.gate_up, stride, *weights.ffn_down, nullptr, weights.post_ffn_norm);
}

void decoder_layers::mix_experts(const layer_weights& weights) {
  PACELINE_CHECK(weights.post_ffn_norm == nullptr && config_.residual_scale == 1,
                 "a mixture of experts is not normed or scaled before it is added");
  const std::uint32_t width = config_.hidden_size;
  device::expert_mixture_args mixture;
  mixture.x = memory_.hidden;
  mixture.x_stride = width;
  mixture.num_rows = num_rows();
  mixture.num_cols = width;
  mixture.norm = {weights.ffn_norm, config_.norm_epsilon, memory_.normed};
  const bool is_shared = weights.experts->shared_down != nullptr;
  if (is_shared) { // reads the same normed rows
    norm(memory_.hidden, memory_.normed, weights.ffn_norm, num_rows());
    run_shared_expert(*weights.experts, weights.precise_ffn_inputs);
    mixture.x = memory_.normed;
    mixture.norm = {};
  }
  mixture.two_planes = weights.precise_ffn_inputs;
  mixture.router = weights.experts->router.get();
  mixture.routing = config_.experts.routing;
  mixture.routing.selection_bias = weights.experts->selection_bias;
  mixture.gate = weights.experts->gate.get();
  mixture.up = weights.experts->up.get();
  mixture.down = weights.experts->down.get();
  mixture.act = config_.activation;
  mixture.workspace = memory_.experts;
  mixture.out = memory_.hidden;
  mixture.out_stride = width;
  mixture.add = true;
  ops_.expert_mixture(mixture);
  if (!is_shared) return;
  ops_.add({memory_.hidden, width, memory_.shared_out, width + std::size_t{1}, num_rows(), width,
            memory_.shared_out + width, width + std::size_t{1}});
}

/// Output and factor of the expert that every row uses, for the normed rows.
void decoder_layers::run_shared_expert(const expert_weights& weights, bool two_planes) {
  const std::uint32_t width = config_.hidden_size, inner = config_.experts.shared_ffn_size;
  const std::size_t stride = 2 * std::size_t{inner}, out_stride = width + std::size_t{1};
  ops_.gated_matmul({memory_.normed,
                     width,
                     num_rows(),
                     width,
                     {},
                     two_planes,
                     weights.shared_gate.get(),
                     weights.shared_up.get(),
                     memory_.shared,
                     memory_.shared,
                     stride,
                     config_.activation});
  const std::array down{
      device::matmul_output{weights.shared_down.get(), memory_.shared_out, out_stride, nullptr, false}};
  ops_.matmul({memory_.shared, stride, num_rows(), inner, false, down});
  const std::array factor{device::matmul_output{weights.shared_scale.get(), memory_.shared_out + width,
                                                out_stride, nullptr, false}};
  ops_.matmul({memory_.normed, width, num_rows(), width, two_planes, factor});
}

} // namespace paceline::model
