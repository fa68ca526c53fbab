#include "tests/support/reference_decoder.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

namespace paceline::test {
namespace {

using model::architecture;
using model::tensor_role;
using vector = std::vector<double>;

class decoder {
 public:
  decoder(const model::model_config& config, const model::weights_source& weights)
      : config_(config), weights_(weights), keys_(config.num_layers), values_(config.num_layers),
        inputs_(config.num_layers), states_(config.num_layers) {}

  vector next(token_id token) {
    vector h(config_.hidden_size);
    for (std::size_t i = 0; i < h.size(); ++i)
      h[i] =
          at(weights_.at(tensor_role::token_embedding), static_cast<std::size_t>(token.value) * h.size() + i);
    if (config_.arch == architecture::gemma3)
      for (double& x : h) x *= std::sqrt(static_cast<double>(config_.hidden_size));
    if (config_.arch == architecture::granite)
      for (double& x : h) x *= config_.embedding_scale;
    for (std::uint32_t l = 0; l < config_.num_layers; ++l) {
      const vector x = input(h, tensor_role::attention_norm, l);
      add(h, branch(mixed(l, x), tensor_role::post_attention_norm, l));
      add(h, branch(feed_forward(l, input(h, tensor_role::ffn_norm, l)), tensor_role::post_ffn_norm, l));
    }
    ++position_;
    vector logits = product(weights_.at(tensor_role::output), norm(h, weights_.at(tensor_role::output_norm)));
    for (double& x : logits) x *= config_.logits_scale;
    return logits;
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

  /// What a block reads: the normalised residual, but of olmo2 the residual itself.
  vector input(const vector& h, tensor_role pre_norm, std::uint32_t l) const {
    return config_.arch == architecture::olmo2 ? h : norm(h, weights_.at(pre_norm, l));
  }

  /// The output of a block that is added to the residual; gemma3 and olmo2 normalise it first, granite scales
  /// it.
  vector branch(vector x, tensor_role post_norm, std::uint32_t l) const {
    if (config_.arch == architecture::gemma3 || config_.arch == architecture::olmo2)
      return norm(x, weights_.at(post_norm, l));
    for (double& value : x) value *= config_.residual_scale;
    return x;
  }

  bool has_head_norms() const {
    return config_.arch != architecture::llama && config_.arch != architecture::qwen2 &&
           config_.arch != architecture::smollm3 && config_.arch != architecture::granite &&
           config_.arch != architecture::mistral3 && config_.arch != architecture::phi3 &&
           config_.arch != architecture::olmo2;
  }

  bool is_rotated(std::uint32_t l) const { return config_.arch != architecture::smollm3 || l % 4 != 3; }

  /// The frequency of pair i, in YaRN's definition divided by the factor if it rotates less than beta_slow
  /// times in the original context, and partly below beta_fast.
  double frequency(const model::rope_config& rope, std::size_t i) const {
    const double rotated = config_.num_rotated(), pair = static_cast<double>(i);
    double plain = std::pow(rope.theta, -2 * pair / rotated);
    if (!rope.frequency_divisors.empty()) plain /= static_cast<double>(rope.frequency_divisors[i]);
    const model::rope_scaling& scaling = rope.scaling;
    if (scaling.kind != model::rope_scaling_kind::yarn) return plain;
    const auto pair_of = [&](double rotations) {
      const double length = scaling.original_context_length / (rotations * 2 * 3.14159265358979323846);
      return rotated / 2 * std::log(length) / std::log(rope.theta);
    };
    const double first = std::max(std::floor(pair_of(scaling.beta_fast)), 0.0);
    const double last = std::min(std::ceil(pair_of(scaling.beta_slow)), rotated - 1);
    const double divided = std::clamp((pair - first) / std::max(last - first, 0.001), 0.0, 1.0);
    return plain * (divided / scaling.factor + 1 - divided);
  }

  void rotate(vector& head, const model::rope_config& rope) const {
    const std::size_t half = config_.num_rotated() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = position_ * frequency(rope, i);
      const bool interleaved = config_.layout == model::rope_layout::interleaved;
      double& a = head[interleaved ? 2 * i : i];
      double& b = head[interleaved ? 2 * i + 1 : i + half];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = rope.scaling.magnitude * (b * std::cos(angle) + a * std::sin(angle));
      a = rope.scaling.magnitude * turned;
    }
  }

  /// Local layers of olmo2 are rotated without the scaling of the others.
  model::rope_config rope_of(std::uint32_t l) const {
    if (!config_.is_local(l)) return config_.rope;
    if (config_.arch == architecture::olmo2)
      return {.theta = config_.rope.theta, .scaling = {}, .frequency_divisors = {}};
    return config_.local_rope;
  }

  /// From queries and gates, which alternate by head, returns the queries (`part` 0) or the gates (1).
  vector rows_of_heads(const vector& both, std::size_t part) const {
    vector out;
    for (std::size_t i = 0; i < both.size(); ++i)
      if (i / config_.head_dim % 2 == part) out.push_back(both[i]);
    return out;
  }

  std::vector<vector> heads(std::uint32_t l, const vector& x, tensor_role role, tensor_role bias,
                            tensor_role head_norm, bool turned) const {
    vector all = product(weights_.at(role, l), x, &weights_.at(bias, l));
    if (role == tensor_role::q && config_.attention_gate) all = rows_of_heads(all, 0);
    if (turned && config_.arch == architecture::olmo2) all = norm(all, weights_.at(head_norm, l));
    std::vector<vector> out;
    for (std::size_t begin = 0; begin < all.size(); begin += config_.head_dim) {
      vector head(all.begin() + static_cast<std::ptrdiff_t>(begin),
                  all.begin() + static_cast<std::ptrdiff_t>(begin + config_.head_dim));
      if (turned && has_head_norms()) head = norm(head, weights_.at(head_norm, l));
      if (turned && is_rotated(l)) rotate(head, rope_of(l));
      out.push_back(std::move(head));
    }
    return out;
  }

  /// The factor of the queries of mistral3. They grow with each further original context.
  double query_factor() const {
    if (config_.arch != architecture::mistral3) return 1;
    return 1 + config_.growth.beta * std::log(1 + std::floor(position_ / config_.growth.period));
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
        weights.push_back(dot * query_factor() * static_cast<double>(config_.attention_scale));
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
    if (config_.attention_gate) {
      const vector gates = rows_of_heads(product(weights_.at(tensor_role::q, l), x), 1);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] *= sigmoid(gates[i]);
    }
    return product(weights_.at(tensor_role::attention_output, l), out,
                   &weights_.at(tensor_role::attention_output_bias, l));
  }

  /// The output of a layer's part before its feed-forward block.
  vector mixed(std::uint32_t l, const vector& x) {
    switch (config_.kind_of(l)) {
    case model::layer_kind::short_conv:
      return convolution(l, x);
    case model::layer_kind::gated_delta:
      return delta_rule(l, x);
    case model::layer_kind::attention:
      break;
    }
    return attention(l, x);
  }

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  /// The causal convolution of all inputs so far of the layer, the newest of which is `z`. The taps' matrix
  /// has a row for each tap.
  vector convolved(std::uint32_t l, const model::weight_view& taps, vector z) {
    const std::size_t width = z.size(), count = config_.conv.num_taps;
    inputs_[l].push_back(std::move(z));
    const std::size_t num_rows = inputs_[l].size();
    vector y(width);
    for (std::size_t tap = 0; tap < count; ++tap) {
      if (num_rows + tap < count) continue; // before the text
      const vector& input = inputs_[l][num_rows + tap - count];
      for (std::size_t i = 0; i < width; ++i) y[i] += at(taps, tap * width + i) * input[i];
    }
    return y;
  }

  /// Qwen3.5's gated delta rule.
  vector delta_rule(std::uint32_t l, const vector& x) {
    const device::delta_heads& heads = config_.delta;
    vector mixed = convolved(l, weights_.at(tensor_role::delta_taps, l),
                             product(weights_.at(tensor_role::delta_qkv, l), x));
    for (double& one : mixed) one *= sigmoid(one);
    const vector gate = product(weights_.at(tensor_role::delta_gate, l), x);
    vector beta = product(weights_.at(tensor_role::delta_beta, l), x), alpha;
    if (config_.packing.fuses_beta) // for each key head, the betas and the alphas of its value heads
      std::tie(beta, alpha) = halves_of_groups(beta, heads.num_values / heads.num_keys);
    else
      alpha = product(weights_.at(tensor_role::delta_alpha, l), x);
    states_[l].resize(heads.num_values, vector(std::size_t{heads.key_dim} * heads.value_dim));
    vector out;
    for (std::uint32_t h = 0; h < heads.num_values; ++h) {
      const std::size_t key = heads.tiled ? h % heads.num_keys : h / (heads.num_values / heads.num_keys);
      const vector q = unit(mixed, key * heads.key_dim, heads.key_dim);
      const vector k = unit(mixed, (heads.num_keys + key) * heads.key_dim, heads.key_dim);
      const double* const v = &mixed[2 * heads.keys_size() + std::size_t{h} * heads.value_dim];
      const double pace = std::log1p(std::exp(alpha[h] + at(weights_.at(tensor_role::delta_dt_bias, l), h)));
      const double decay = std::exp(at(weights_.at(tensor_role::delta_decay, l), h) * pace);
      vector& state = states_[l][h];
      vector o(heads.value_dim);
      for (std::size_t j = 0; j < o.size(); ++j) {
        double seen = 0;
        for (std::size_t i = 0; i < q.size(); ++i) seen += (state[i * o.size() + j] *= decay) * k[i];
        for (std::size_t i = 0; i < q.size(); ++i)
          o[j] += (state[i * o.size() + j] += k[i] * sigmoid(beta[h]) * (v[j] - seen)) * q[i];
        o[j] /= std::sqrt(static_cast<double>(heads.key_dim));
      }
      o = norm(o, weights_.at(tensor_role::delta_norm, l));
      for (std::size_t j = 0; j < o.size(); ++j) {
        const double z = gate[h * o.size() + j];
        out.push_back(o[j] * z * sigmoid(z));
      }
    }
    return product(weights_.at(tensor_role::delta_out, l), out);
  }

  static std::pair<vector, vector> halves_of_groups(const vector& both, std::size_t size) {
    std::pair<vector, vector> parts;
    for (std::size_t i = 0; i < both.size(); ++i)
      (i / size % 2 == 0 ? parts.first : parts.second).push_back(both[i]);
    return parts;
  }

  /// `size` values of x from `begin` on, divided by their length.
  static vector unit(const vector& x, std::size_t begin, std::size_t size) {
    vector y(x.begin() + static_cast<std::ptrdiff_t>(begin),
             x.begin() + static_cast<std::ptrdiff_t>(begin + size));
    double squares = 1e-6;
    for (const double value : y) squares += value * value;
    for (double& value : y) value /= std::sqrt(squares);
    return y;
  }

  /// LFM2's gated short convolution.
  vector convolution(std::uint32_t l, const vector& x) {
    const vector bcu =
        product(weights_.at(tensor_role::conv_in, l), x, &weights_.at(tensor_role::conv_in_bias, l));
    const std::size_t width = config_.hidden_size;
    vector z(width);
    for (std::size_t i = 0; i < width; ++i) z[i] = bcu[i] * bcu[2 * width + i];
    vector y = convolved(l, weights_.at(tensor_role::conv_taps, l), std::move(z));
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
    const bool is_sigmoid = config_.arch == architecture::lfm2moe;
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& score : p)
      sum += score = is_sigmoid ? 1 / (1 + std::exp(-score)) : std::exp(score - largest);
    if (is_sigmoid) sum = 1;
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
      if (is_sigmoid) sum += 1e-6;
    }
    vector mixed(x.size());
    for (const std::size_t e : order) {
      vector y = block(x, weights_.experts(tensor_role::ffn_gate_experts, l)[e],
                       weights_.experts(tensor_role::ffn_up_experts, l)[e],
                       weights_.experts(tensor_role::ffn_down_experts, l)[e]);
      for (std::size_t i = 0; i < y.size(); ++i) mixed[i] += p[e] / sum * y[i];
    }
    if (config_.experts.shared_ffn_size == 0) return mixed;
    const vector shared =
        block(x, weights_.at(tensor_role::ffn_gate_shared, l), weights_.at(tensor_role::ffn_up_shared, l),
              weights_.at(tensor_role::ffn_down_shared, l));
    const double factor = sigmoid(product(weights_.at(tensor_role::ffn_shared_scale, l), x)[0]);
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += factor * shared[i];
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
  std::vector<std::vector<vector>> states_;                     ///< of delta rules, [layer][head]
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
