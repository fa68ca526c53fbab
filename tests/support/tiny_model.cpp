#include "tests/support/tiny_model.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"
#include "tests/support/tiny_families.hpp"
#include "tests/support/tiny_gguf_vocabulary.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <string>

namespace paceline::test {

namespace {

using device::tensor_type;
using model::architecture;

bool is_lfm2(const tiny_model& options) {
  return options.arch == architecture::lfm2 || options.arch == architecture::lfm2moe;
}
bool is_mixture(const tiny_model& options) {
  return options.arch == architecture::qwen3moe || options.arch == architecture::lfm2moe ||
         options.arch == architecture::qwen35moe || options.arch == architecture::qwen3next;
}

bool has_rules(const tiny_model& options) {
  return options.arch == architecture::qwen35 || options.arch == architecture::qwen35moe ||
         options.arch == architecture::qwen3next;
}

/// Uniform in [-1, 1).
float uniform(std::mt19937_64& random) {
  return static_cast<float>(random() >> 40) / static_cast<float>(1 << 23) - 1.0F;
}

void put_half(std::byte* at, float value) {
  const auto half = device::f16_of_float(value);
  std::memcpy(at, &half, sizeof(half));
}

/// Positions of a block's float16 factors, and the largest integers that they multiply.
struct block_factors {
  std::size_t scale_at;
  float largest_code;
  std::ptrdiff_t min_at = -1; ///< the offset of all values, for formats with one
  float largest_min = 1;
};

block_factors factors_of(tensor_type type) {
  switch (type) {
  case tensor_type::q4_0:
    return {0, 8};
  case tensor_type::q4_1:
    return {0, 15, 2};
  case tensor_type::q5_0:
    return {0, 16};
  case tensor_type::q5_1:
    return {0, 31, 2};
  case tensor_type::q8_0:
    return {0, 127};
  case tensor_type::q2_k:
    return {80, 3 * 15, 82, 15};
  case tensor_type::q3_k:
    return {108, 4 * 32};
  case tensor_type::q4_k:
    return {0, 15 * 63, 2, 63};
  case tensor_type::q5_k:
    return {0, 31 * 63, 2, 63};
  case tensor_type::q6_k:
    return {208, 32 * 127};
  case tensor_type::iq4_nl:
    return {0, 127};
  case tensor_type::iq4_xs:
    return {0, 127 * 32};
  default:
    PACELINE_CHECK(false, "not a block format");
    return {};
  }
}

void set_hyper_parameters(gguf_builder& file, const tiny_model& options) {
  const std::string arch(to_string(options.arch));
  file.set_string("general.architecture", arch).set_string("general.name", "tiny " + arch);
  const auto set = [&](const char* key, std::uint32_t value) { file.set_uint32(arch + "." + key, value); };
  set("context_length", options.context_length);
  set("embedding_length", options.hidden_size);
  set("block_count", options.num_layers + (options.mtp_module ? 1 : 0));
  if (options.mtp_module) set("nextn_predict_layers", 1);
  set("feed_forward_length", options.ffn_size);
  set("attention.head_count", options.num_heads);
  if (is_lfm2(options)) {
    std::vector<std::int32_t> kv_heads;
    for (std::uint32_t layer = 0; layer < options.num_layers; ++layer)
      kv_heads.push_back(has_convolution(options, layer) ? 0
                                                         : static_cast<std::int32_t>(options.num_kv_heads));
    file.set_int32s(arch + ".attention.head_count_kv", kv_heads);
    set("shortconv.l_cache", options.num_conv_taps);
  } else {
    set("attention.head_count_kv", options.num_kv_heads);
  }
  set("attention.key_length", options.head_dim);
  set("attention.value_length", options.head_dim);
  file.set_float32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  file.set_float32(arch + ".rope.freq_base", 10000.0F);
  if (options.arch == architecture::gemma3) {
    set("attention.sliding_window", options.sliding_window);
    set("attention.sliding_window_pattern", options.sliding_pattern);
    file.set_float32(arch + ".rope.freq_base_swa", 1000.0F);
  }
  if (has_rules(options)) {
    set("rope.dimension_count", options.head_dim / 2);
    set("full_attention_interval", 2);
    set("ssm.conv_kernel", options.num_conv_taps);
    set("ssm.group_count", options.num_key_heads);
    set("ssm.time_step_rank", options.num_value_heads);
    set("ssm.state_size", options.delta_head_dim);
    set("ssm.inner_size", options.num_value_heads * options.delta_head_dim);
  }
  if (is_mixture(options)) {
    set("expert_count", options.num_experts);
    set("expert_used_count", options.num_used_experts);
    set("expert_feed_forward_length", options.expert_ffn_size);
    file.set_bool(arch + ".expert_weights_norm", options.normalised_experts);
    if (has_rules(options)) set("expert_shared_feed_forward_length", options.shared_ffn_size);
  }
}

/// Adds random tensors to a file.
class tensor_writer {
 public:
  tensor_writer(gguf_builder& file, const tiny_model& options)
      : file_(file), type_(options.type), random_(options.seed) {}

  /// Rows with inputs of about unit length and outputs of about unit size.
  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    file_.add_tensor(name, type_of(cols), {cols, rows}, values(rows, cols));
  }

  /// Matrices of a layer's experts, one after another.
  void experts(const std::string& name, std::uint64_t count, std::uint64_t rows, std::uint64_t cols) {
    file_.add_tensor(name, type_of(cols), {cols, rows, count}, values(count * rows, cols));
  }

  /// The values of two calls of `experts`. For each expert, those of the first call come first.
  void fused_experts(const std::string& name, std::uint64_t count, std::uint64_t rows, std::uint64_t cols) {
    const auto gate = values(count * rows, cols), up = values(count * rows, cols);
    const auto size = static_cast<std::ptrdiff_t>(gate.size() / count);
    std::vector<std::byte> both;
    for (auto g = gate.begin(), u = up.begin(); g != gate.end(); g += size, u += size) {
      both.insert(both.end(), g, g + size);
      both.insert(both.end(), u, u + size);
    }
    file_.add_tensor(name, type_of(cols), {cols, 2 * rows, count}, std::move(both));
  }

  /// Scores that differ clearly between experts.
  void router(const std::string& name, std::uint64_t count, std::uint64_t cols) {
    const float scale = 2 * std::sqrt(3.0F / static_cast<float>(cols));
    file_.add_tensor(name, tensor_type::f32, {cols, count},
                     random_tensor(tensor_type::f32, count * cols, scale, random_));
  }

  /// Taps of a convolution, whose sizes and signs differ clearly.
  void taps(const std::string& name, std::uint64_t channels, std::uint64_t count) {
    file_.add_tensor(name, tensor_type::f32, {count, channels},
                     random_tensor(tensor_type::f32, count * channels, 1.5F, random_));
  }

  /// With `outliers`, one value of twenty is far larger, as in trained models of the gemma3 family.
  void norm(const std::string& name, std::uint64_t size, bool outliers = false) {
    std::vector<float> values(size);
    for (auto& value : values) value = 1.0F + 0.25F * uniform(random_);
    for (std::size_t i = 7; outliers && i < size; i += 20) values[i] *= 8;
    const auto bytes = std::as_bytes(std::span(values));
    file_.add_tensor(name, tensor_type::f32, {size}, {bytes.begin(), bytes.end()});
  }

  /// Decays of a delta rule, from one that forgets at once to one that hardly forgets.
  void decay(const std::string& name, std::uint64_t size) {
    std::vector<float> values(size);
    for (auto& value : values) value = -std::exp(2 * uniform(random_));
    const auto bytes = std::as_bytes(std::span(values));
    file_.add_tensor(name, tensor_type::f32, {size}, {bytes.begin(), bytes.end()});
  }

  void bias(const std::string& name, std::uint64_t size) {
    file_.add_tensor(name, tensor_type::f32, {size}, random_tensor(tensor_type::f32, size, 0.5F, random_));
  }

 private:
  tensor_type type_of(std::uint64_t cols) const {
    return cols % device::traits_of(type_)->block_values == 0 ? type_ : tensor_type::f32;
  }
  std::vector<std::byte> values(std::uint64_t rows, std::uint64_t cols) {
    return random_tensor(type_of(cols), rows * cols, std::sqrt(3.0F / static_cast<float>(cols)), random_);
  }

  gguf_builder& file_;
  tensor_type type_;
  std::mt19937_64 random_;
};

void add_experts(tensor_writer& tensors, const tiny_model& options, const std::string& prefix) {
  const std::uint64_t hidden = options.hidden_size, inner = options.expert_ffn_size;
  tensors.router(prefix + "ffn_gate_inp.weight", options.num_experts, hidden);
  if (options.arch == architecture::lfm2moe) tensors.bias(prefix + "exp_probs_b.bias", options.num_experts);
  if (options.fused_experts) {
    tensors.fused_experts(prefix + "ffn_gate_up_exps.weight", options.num_experts, inner, hidden);
  } else {
    tensors.experts(prefix + "ffn_gate_exps.weight", options.num_experts, inner, hidden);
    tensors.experts(prefix + "ffn_up_exps.weight", options.num_experts, inner, hidden);
  }
  tensors.experts(prefix + "ffn_down_exps.weight", options.num_experts, hidden, inner);
  if (!has_rules(options)) return;
  tensors.bias(prefix + "ffn_gate_inp_shexp.weight", hidden); // a vector
  tensors.matrix(prefix + "ffn_gate_shexp.weight", options.shared_ffn_size, hidden);
  tensors.matrix(prefix + "ffn_up_shexp.weight", options.shared_ffn_size, hidden);
  tensors.matrix(prefix + "ffn_down_shexp.weight", hidden, options.shared_ffn_size);
}

void add_attention(tensor_writer& tensors, const tiny_model& options, const std::string& prefix) {
  const std::uint64_t hidden = options.hidden_size;
  const std::uint64_t q_size = std::uint64_t{options.num_heads} * options.head_dim;
  const std::uint64_t kv_size = std::uint64_t{options.num_kv_heads} * options.head_dim;
  if (options.arch == architecture::phi3) {
    tensors.matrix(prefix + "attn_qkv.weight", q_size + 2 * kv_size, hidden);
  } else {
    tensors.matrix(prefix + "attn_q.weight", has_rules(options) ? 2 * q_size : q_size, hidden);
    tensors.matrix(prefix + "attn_k.weight", kv_size, hidden);
    tensors.matrix(prefix + "attn_v.weight", kv_size, hidden);
  }
  tensors.matrix(prefix + "attn_output.weight", hidden, q_size);
  if (options.arch == architecture::qwen2) {
    tensors.bias(prefix + "attn_q.bias", q_size);
    tensors.bias(prefix + "attn_k.bias", kv_size);
    tensors.bias(prefix + "attn_v.bias", kv_size);
  }
  if (options.arch == architecture::gemma3 || options.arch == architecture::qwen3 ||
      options.arch == architecture::qwen3moe || is_lfm2(options) || has_rules(options)) {
    tensors.norm(prefix + "attn_q_norm.weight", options.head_dim);
    tensors.norm(prefix + "attn_k_norm.weight", options.head_dim);
  }
  if (options.arch == architecture::olmo2) {
    tensors.norm(prefix + "attn_q_norm.weight", q_size);
    tensors.norm(prefix + "attn_k_norm.weight", kv_size);
  }
}

void add_delta_rule(tensor_writer& tensors, const tiny_model& options, const std::string& prefix) {
  const std::uint64_t hidden = options.hidden_size, heads = options.num_value_heads;
  const std::uint64_t values = heads * options.delta_head_dim;
  const std::uint64_t channels = values + std::uint64_t{2} * options.num_key_heads * options.delta_head_dim;
  tensors.matrix(prefix + "attn_qkv.weight", channels, hidden);
  tensors.matrix(prefix + "attn_gate.weight", values, hidden);
  if (options.arch == architecture::qwen3next) {
    tensors.matrix(prefix + "ssm_ba.weight", 2 * heads, hidden);
  } else {
    tensors.matrix(prefix + "ssm_beta.weight", heads, hidden);
    tensors.matrix(prefix + "ssm_alpha.weight", heads, hidden);
  }
  tensors.taps(prefix + "ssm_conv1d.weight", channels, options.num_conv_taps);
  tensors.bias(prefix + "ssm_dt.bias", heads);
  tensors.decay(prefix + "ssm_a", heads);
  tensors.norm(prefix + "ssm_norm.weight", options.delta_head_dim);
  tensors.matrix(prefix + "ssm_out.weight", hidden, values);
}

void add_feed_forward(tensor_writer& tensors, const tiny_model& options, const std::string& prefix) {
  const bool fused = options.arch == architecture::phi3;
  if (!fused) tensors.matrix(prefix + "ffn_gate.weight", options.ffn_size, options.hidden_size);
  const std::uint64_t rows = (fused ? 2 : 1) * std::uint64_t{options.ffn_size};
  tensors.matrix(prefix + "ffn_up.weight", rows, options.hidden_size);
  tensors.matrix(prefix + "ffn_down.weight", options.hidden_size, options.ffn_size);
}

/// A layer with attention, and what is around it.
void add_mtp_module(tensor_writer& tensors, const tiny_model& options) {
  const std::string prefix = "blk." + std::to_string(options.num_layers) + ".";
  const std::uint64_t hidden = options.hidden_size;
  tensors.matrix(prefix + "nextn.eh_proj.weight", hidden, 2 * hidden);
  for (const char* const name :
       {"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm", "attn_norm", "post_attention_norm"})
    tensors.norm(prefix + name + ".weight", hidden);
  add_attention(tensors, options, prefix);
  if (is_mixture(options))
    add_experts(tensors, options, prefix);
  else
    add_feed_forward(tensors, options, prefix);
}

void add_layer(tensor_writer& tensors, const tiny_model& options, std::uint32_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const std::uint64_t hidden = options.hidden_size;
  const bool is_gemma = options.arch == architecture::gemma3, is_olmo = options.arch == architecture::olmo2;
  const bool outliers = is_gemma && layer % 2 == 1;
  if (!is_olmo) tensors.norm(prefix + "attn_norm.weight", hidden, outliers);
  if (has_convolution(options, layer)) {
    tensors.matrix(prefix + "shortconv.in_proj.weight", 3 * hidden, hidden);
    tensors.taps(prefix + "shortconv.conv.weight", hidden, options.num_conv_taps);
    tensors.matrix(prefix + "shortconv.out_proj.weight", hidden, hidden);
  } else if (has_delta_rule(options, layer)) {
    add_delta_rule(tensors, options, prefix);
  } else {
    add_attention(tensors, options, prefix);
  }
  if (is_gemma || is_olmo) tensors.norm(prefix + "post_attention_norm.weight", hidden);
  if (!is_olmo)
    tensors.norm(prefix + (has_rules(options) ? "post_attention_norm.weight" : "ffn_norm.weight"), hidden,
                 outliers);
  if (has_experts(options, layer)) {
    add_experts(tensors, options, prefix);
  } else {
    add_feed_forward(tensors, options, prefix);
  }
  if (is_gemma || is_olmo) tensors.norm(prefix + "post_ffw_norm.weight", hidden);
}

} // namespace

bool has_convolution(const tiny_model& options, std::uint32_t layer) {
  return is_lfm2(options) && layer % 2 == 0;
}

bool has_delta_rule(const tiny_model& options, std::uint32_t layer) {
  return has_rules(options) && layer % 2 == 0;
}

bool has_experts(const tiny_model& options, std::uint32_t layer) {
  return is_mixture(options) && static_cast<std::int32_t>(layer) != options.dense_layer;
}

std::vector<std::byte> random_tensor(tensor_type type, std::size_t num_values, float scale,
                                     std::mt19937_64& random) {
  const auto traits = *device::traits_of(type);
  PACELINE_CHECK(num_values % traits.block_values == 0, "whole blocks");
  const std::size_t num_blocks = num_values / traits.block_values;
  std::vector<std::byte> out(num_blocks * traits.block_bytes);
  for (std::size_t block = 0; block < num_blocks; ++block) {
    std::byte* at = out.data() + block * traits.block_bytes;
    if (type == tensor_type::f32) {
      const float value = scale * uniform(random);
      std::memcpy(at, &value, sizeof(value));
    } else if (type == tensor_type::f16) {
      put_half(at, scale * uniform(random));
    } else if (type == tensor_type::bf16) {
      const float value = scale * uniform(random);
      std::memcpy(at, reinterpret_cast<const std::byte*>(&value) + 2, 2);
    } else {
      for (std::size_t i = 0; i < traits.block_bytes; ++i) at[i] = static_cast<std::byte>(random() >> 56);
      const auto factors = factors_of(type);
      const bool has_min = factors.min_at >= 0;
      const float spread = scale * (1.5F + 0.5F * uniform(random));
      // Codes of formats with a minimum start at 0: twice the spread, shifted down by one.
      put_half(at + factors.scale_at, (has_min ? 2 : 1) * spread / factors.largest_code);
      if (has_min) {
        const bool subtracts =
            traits.block_values == 256; // K formats subtract their minimum, the others add it
        put_half(at + factors.min_at, (subtracts ? 1.0F : -1.0F) * spread / factors.largest_min);
      }
    }
  }
  return out;
}

gguf_builder make_tiny_gguf(const tiny_model& options) {
  gguf_builder file;
  set_hyper_parameters(file, options);
  set_family_keys(file, options);
  if (options.arch == architecture::gemma3)
    set_spm_vocabulary(file, options.vocab_size);
  else
    set_bpe_vocabulary(file, options.vocab_size);
  tensor_writer tensors(file, options);
  tensors.matrix("token_embd.weight", options.vocab_size, options.hidden_size);
  for (std::uint32_t layer = 0; layer < options.num_layers; ++layer) add_layer(tensors, options, layer);
  if (options.mtp_module) add_mtp_module(tensors, options);
  tensors.norm(is_lfm2(options) ? "token_embd_norm.weight" : "output_norm.weight", options.hidden_size);
  if (!options.tied_embeddings) tensors.matrix("output.weight", options.vocab_size, options.hidden_size);
  return file;
}

} // namespace paceline::test
