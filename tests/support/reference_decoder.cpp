#include "tests/support/reference_decoder.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace paceline::test {
namespace {

using model::architecture;
using model::tensor_role;
using vector = std::vector<double>;

class decoder {
 public:
  decoder(const model::model_config& config, const model::weights_source& weights)
      : config_(config), weights_(weights), keys_(config.num_layers), values_(config.num_layers),
        inputs_(config.num_layers) {}

  vector next(token_id token) {
    vector h(config_.hidden_size);
    for (std::size_t i = 0; i < h.size(); ++i)
      h[i] =
          at(weights_.at(tensor_role::token_embedding), static_cast<std::size_t>(token.value) * h.size() + i);
    if (config_.arch == architecture::gemma3)
      for (double& x : h) x *= std::sqrt(static_cast<double>(config_.hidden_size));
    for (std::uint32_t l = 0; l < config_.num_layers; ++l) {
      const vector x = norm(h, weights_.at(tensor_role::attention_norm, l));
      add(h, branch(config_.has_attention(l) ? attention(l, x) : convolution(l, x),
                    tensor_role::post_attention_norm, l));
      add(h, branch(feed_forward(l, norm(h, weights_.at(tensor_role::ffn_norm, l))),
                    tensor_role::post_ffn_norm, l));
    }
    ++position_;
    return product(weights_.at(tensor_role::output), norm(h, weights_.at(tensor_role::output_norm)));
  }

 private:
  static double at(const model::weight_view& view, std::size_t index) {
    PACELINE_CHECK(view.tensor.type == device::tensor_type::f32, "the reference reads F32 only");
    float value = 0;
    std::memcpy(&value, view.tensor.bytes.data() + index * sizeof(float), sizeof(float));
    return static_cast<double>(value);
  }

  static void add(vector& x, const vector& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  static vector product(const model::weight_view& w, const vector& x,
                        const model::weight_view* bias = nullptr) {
    vector y(w.tensor.num_rows);
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += at(w, r * x.size() + c) * x[c];
      if (bias != nullptr && !bias->empty()) y[r] += at(*bias, r);
    }
    return y;
  }

  vector norm(const vector& x, const model::weight_view& weight) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + config_.norm_epsilon);
    vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * at(weight, i);
    return y;
  }

  /// The output of a block that is added to the residual; gemma3 normalises it first.
  vector branch(vector x, tensor_role post_norm, std::uint32_t l) const {
    return config_.arch == architecture::gemma3 ? norm(x, weights_.at(post_norm, l)) : x;
  }

  void rotate(vector& head, double theta) const {
    const std::size_t half = head.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle =
          position_ * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head.size()));
      const bool interleaved = config_.layout == model::rope_layout::interleaved;
      double& a = head[interleaved ? 2 * i : i];
      double& b = head[interleaved ? 2 * i + 1 : i + half];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }

  std::vector<vector> heads(std::uint32_t l, const vector& x, tensor_role role, tensor_role bias,
                            tensor_role head_norm, bool turned) const {
    const vector all = product(weights_.at(role, l), x, &weights_.at(bias, l));
    std::vector<vector> out;
    for (std::size_t begin = 0; begin < all.size(); begin += config_.head_dim) {
      vector head(all.begin() + static_cast<std::ptrdiff_t>(begin),
                  all.begin() + static_cast<std::ptrdiff_t>(begin + config_.head_dim));
      const bool normed = config_.arch != architecture::llama && config_.arch != architecture::qwen2;
      if (turned && normed) head = norm(head, weights_.at(head_norm, l));
      if (turned) rotate(head, config_.is_local(l) ? config_.local_rope.theta : config_.rope.theta);
      out.push_back(std::move(head));
    }
    return out;
  }

  vector attention(std::uint32_t l, const vector& x) {
    const auto queries = heads(l, x, tensor_role::q, tensor_role::q_bias, tensor_role::q_norm, true);
    keys_[l].push_back(heads(l, x, tensor_role::k, tensor_role::k_bias, tensor_role::k_norm, true));
    values_[l].push_back(heads(l, x, tensor_role::v, tensor_role::v_bias, tensor_role::v, false));
    const std::size_t num_positions = keys_[l].size();
    std::size_t first = 0;
    if (config_.is_local(l) && num_positions > config_.sliding_window)
      first = num_positions - config_.sliding_window;
    vector out;
    for (std::size_t h = 0; h < queries.size(); ++h) {
      const std::size_t kv_head = h / (config_.num_heads / config_.num_kv_heads);
      vector weights;
      for (std::size_t p = first; p < num_positions; ++p) {
        double dot = 0;
        for (std::size_t d = 0; d < config_.head_dim; ++d) dot += queries[h][d] * keys_[l][p][kv_head][d];
        weights.push_back(dot * static_cast<double>(config_.attention_scale));
      }
      const double max = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& w : weights) sum += w = std::exp(w - max);
      vector mixed(config_.head_dim);
      for (std::size_t p = first; p < num_positions; ++p)
        for (std::size_t d = 0; d < mixed.size(); ++d)
          mixed[d] += weights[p - first] / sum * values_[l][p][kv_head][d];
      out.insert(out.end(), mixed.begin(), mixed.end());
    }
    return product(weights_.at(tensor_role::attention_output, l), out,
                   &weights_.at(tensor_role::attention_output_bias, l));
  }

  /// LFM2's gated short convolution. The taps' matrix has a row for each tap.
  vector convolution(std::uint32_t l, const vector& x) {
    const vector bcu =
        product(weights_.at(tensor_role::conv_in, l), x, &weights_.at(tensor_role::conv_in_bias, l));
    const std::size_t width = config_.hidden_size;
    vector z(width), y(width);
    for (std::size_t i = 0; i < width; ++i) z[i] = bcu[i] * bcu[2 * width + i];
    inputs_[l].push_back(std::move(z));
    const auto& taps = weights_.at(tensor_role::conv_taps, l);
    const std::size_t count = config_.conv.num_taps, num_rows = inputs_[l].size();
    for (std::size_t tap = 0; tap < count; ++tap) {
      if (num_rows + tap < count) continue; // before the text
      const vector& input = inputs_[l][num_rows + tap - count];
      for (std::size_t i = 0; i < width; ++i) y[i] += at(taps, tap * width + i) * input[i];
    }
    const auto& bias = weights_.at(tensor_role::conv_bias, l);
    for (std::size_t i = 0; i < width; ++i) y[i] = bcu[width + i] * (y[i] + (bias.empty() ? 0 : at(bias, i)));
    return product(weights_.at(tensor_role::conv_out, l), y, &weights_.at(tensor_role::conv_out_bias, l));
  }

  vector feed_forward(std::uint32_t l, const vector& x) const {
    if (config_.has_experts(l)) return mixture(l, x);
    return block(x, weights_.at(tensor_role::ffn_gate, l), weights_.at(tensor_role::ffn_up, l),
                 weights_.at(tensor_role::ffn_down, l));
  }

  vector block(const vector& x, const model::weight_view& gate_weights, const model::weight_view& up_weights,
               const model::weight_view& down_weights) const {
    vector gate = product(gate_weights, x);
    const vector up = product(up_weights, x);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = activate(gate[i]) * up[i];
    return product(down_weights, gate);
  }

  /// The experts with the largest scores, weighted by these: probabilities in qwen3moe, sigmoids in lfm2moe,
  /// whose selection has a bias.
  vector mixture(std::uint32_t l, const vector& x) const {
    vector p = product(weights_.at(tensor_role::ffn_router, l), x);
    const bool sigmoid = config_.arch == architecture::lfm2moe;
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& score : p) sum += score = sigmoid ? 1 / (1 + std::exp(-score)) : std::exp(score - largest);
    if (sigmoid) sum = 1;
    vector keys = p;
    const auto& bias = weights_.at(tensor_role::ffn_selection_bias, l);
    for (std::size_t e = 0; e < keys.size() && !bias.empty(); ++e) keys[e] += at(bias, e);
    std::vector<std::size_t> order(p.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return keys[a] > keys[b]; });
    order.resize(config_.experts.routing.num_used);
    if (config_.experts.routing.normalised) {
      sum = 0;
      for (const std::size_t e : order) sum += p[e];
      if (sigmoid) sum += 1e-6;
    }
    vector mixed(x.size());
    for (const std::size_t e : order) {
      vector y = block(x, weights_.experts(tensor_role::ffn_gate_experts, l)[e],
                       weights_.experts(tensor_role::ffn_up_experts, l)[e],
                       weights_.experts(tensor_role::ffn_down_experts, l)[e]);
      for (std::size_t i = 0; i < y.size(); ++i) mixed[i] += p[e] / sum * y[i];
    }
    return mixed;
  }

  double activate(double x) const {
    if (config_.arch != architecture::gemma3) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  }

  const model::model_config& config_;
  const model::weights_source& weights_;
  double position_ = 0;
  std::vector<std::vector<std::vector<vector>>> keys_, values_; ///< [layer][position][head]
  std::vector<std::vector<vector>> inputs_;                     ///< of convolutions, [layer][position]
};

} // namespace

std::vector<double> reference_logits(const model::model_config& config, const model::weights_source& weights,
                                     std::span<const token_id> tokens) {
  decoder reference(config, weights);
  std::vector<double> logits;
  for (const token_id token : tokens) {
    const vector row = reference.next(token);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

} // namespace paceline::test
