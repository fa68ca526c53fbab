#include "tests/support/tiny_hf_model.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"
#include "tests/support/tiny_families.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <utility>

namespace paceline::test {

namespace {

using device::tensor_type;
using model::architecture;

std::string hf_name(const std::string& gguf_name, architecture arch) {
  static const std::map<std::string, std::string> of_model = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"}};
  static const std::map<std::string, std::string> of_layer = {
      {"attn_norm.weight", "input_layernorm.weight"},
      {"attn_qkv.weight", "self_attn.qkv_proj.weight"},
      {"attn_q.weight", "self_attn.q_proj.weight"},
      {"attn_k.weight", "self_attn.k_proj.weight"},
      {"attn_v.weight", "self_attn.v_proj.weight"},
      {"attn_q.bias", "self_attn.q_proj.bias"},
      {"attn_k.bias", "self_attn.k_proj.bias"},
      {"attn_v.bias", "self_attn.v_proj.bias"},
      {"attn_output.weight", "self_attn.o_proj.weight"},
      {"attn_q_norm.weight", "self_attn.q_norm.weight"},
      {"attn_k_norm.weight", "self_attn.k_norm.weight"},
      {"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_gate.weight", "mlp.gate_proj.weight"},
      {"ffn_up.weight", "mlp.up_proj.weight"},
      {"ffn_down.weight", "mlp.down_proj.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
      {"ffn_gate_inp.weight", "mlp.gate.weight"},
      {"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"},
      {"ffn_gate_exps.weight", "mlp.experts.*.gate_proj.weight"},
      {"ffn_up_exps.weight", "mlp.experts.*.up_proj.weight"},
      {"ffn_down_exps.weight", "mlp.experts.*.down_proj.weight"}};
  if (const auto found = of_model.find(gguf_name); found != of_model.end()) return found->second;
  const auto dot = gguf_name.find('.', 4);
  const auto prefix = "model.layers." + gguf_name.substr(4, dot - 4) + ".";
  const auto rest = gguf_name.substr(dot + 1);
  if (rest == "ffn_up.weight" && arch == architecture::phi3) return prefix + "mlp.gate_up_proj.weight";
  if (rest == "ffn_norm.weight")
    return prefix +
           (arch == architecture::gemma3 ? "pre_feedforward_layernorm" : "post_attention_layernorm") +
           ".weight";
  return prefix + of_layer.at(rest);
}

/// Reorders the rows of each head from (pair, half) to (half, pair): the inverse of GGUF's converter.
std::vector<std::byte> half_split_rows(const gguf_builder::tensor& tensor, std::uint32_t head_dim) {
  const std::size_t num_rows = tensor.shape[1];
  const std::size_t row_bytes = tensor.data.size() / num_rows;
  std::vector<std::byte> out(tensor.data.size());
  for (std::size_t row = 0; row < num_rows; ++row) {
    const std::size_t head = row / head_dim;
    const std::size_t pair = row % head_dim / 2;
    const std::size_t half = row % 2;
    const std::size_t to = head * head_dim + half * (head_dim / 2) + pair;
    std::memcpy(out.data() + to * row_bytes, tensor.data.data() + row * row_bytes, row_bytes);
  }
  return out;
}

std::vector<std::byte> minus_one(std::vector<std::byte> data) {
  for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, data.data() + at, sizeof(value));
    value -= 1.0F;
    std::memcpy(data.data() + at, &value, sizeof(value));
  }
  return data;
}

std::vector<std::byte> hf_data(const gguf_builder::tensor& tensor, const tiny_model& options) {
  const bool rotated = tensor.name.ends_with("attn_q.weight") || tensor.name.ends_with("attn_k.weight");
  if (is_permuted(options.arch) && rotated) return half_split_rows(tensor, options.head_dim);
  if (options.arch == architecture::gemma3 && tensor.name.ends_with("norm.weight"))
    return minus_one(tensor.data);
  return tensor.data;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// An F32 matrix as BF16, the type of unquantised matrices in FP8 checkpoints.
void add_brief(safetensors_builder& shard, const std::string& name, const std::vector<std::uint64_t>& shape,
               const std::vector<std::byte>& data, bool decoded) {
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  std::vector<std::uint16_t> brief;
  for (float& value : values) {
    brief.push_back(device::bf16_of_float(value));
    value = device::float_of_bf16(brief.back());
  }
  if (decoded)
    shard.add(name, "F32", shape, bytes_of(values));
  else
    shard.add(name, "BF16", shape, bytes_of(brief));
}

/// An F32 matrix, as FP8.
void add_fp8(safetensors_builder& shard, const std::string& name, const std::vector<std::uint64_t>& shape,
             const std::vector<std::byte>& data, const tiny_fp8& fp8) {
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  const fp8_matrix made = quantise_fp8(values, shape[0], shape[1], fp8.scales);
  if (fp8.decoded) {
    shard.add(name, "F32", shape, bytes_of(made.values));
    return;
  }
  shard.add(name, "F8_E4M3", shape, made.codes);
  std::vector<std::uint16_t> brief;
  for (const float scale : made.scales) brief.push_back(device::bf16_of_float(scale));
  if (fp8.scales == fp8_scales::rows)
    shard.add(name + "_scale", "BF16", made.scale_shape, bytes_of(brief));
  else
    shard.add(name + (fp8.scales == fp8_scales::blocks ? "_scale_inv" : "_scale"), "F32", made.scale_shape,
              bytes_of(made.scales));
}

/// The experts of a tensor as tensors of their own: '*' in `name` is the expert.
void add_each_expert(safetensors_builder& shard, const std::string& name, const gguf_builder::tensor& tensor,
                     const tiny_fp8& fp8) {
  const std::size_t count = tensor.shape[2], bytes = tensor.data.size() / count;
  const std::size_t at = name.find('*');
  for (std::size_t e = 0; e < count; ++e) {
    const auto first = tensor.data.begin() + static_cast<std::ptrdiff_t>(e * bytes);
    const std::vector<std::byte> data(first, first + static_cast<std::ptrdiff_t>(bytes));
    const std::string own = std::string(name).replace(at, 1, std::to_string(e));
    if (fp8.scales != fp8_scales::none)
      add_fp8(shard, own, {tensor.shape[1], tensor.shape[0]}, data, fp8);
    else
      shard.add(own, device::traits_of(tensor.type)->name, {tensor.shape[1], tensor.shape[0]}, data);
  }
}

std::string shard_name(std::size_t shard, std::size_t num_shards) {
  if (num_shards == 1) return "model.safetensors";
  return "model-0000" + std::to_string(shard + 1) + "-of-0000" + std::to_string(num_shards) + ".safetensors";
}

} // namespace

safetensors_builder& safetensors_builder::add(std::string_view name, std::string_view dtype,
                                              const std::vector<std::uint64_t>& shape,
                                              const std::vector<std::byte>& data) {
  std::ostringstream entry;
  entry << (entries_.empty() ? "" : ",") << '"' << name << R"(":{"dtype":")" << dtype << R"(","shape":[)";
  for (std::size_t d = 0; d < shape.size(); ++d) entry << (d == 0 ? "" : ",") << shape[d];
  entry << R"(],"data_offsets":[)" << data_.size() << ',' << data_.size() + data.size() << "]}";
  entries_ += entry.str();
  data_.insert(data_.end(), data.begin(), data.end());
  names_.emplace_back(name);
  return *this;
}

std::vector<std::byte> safetensors_builder::build_raw(std::string_view header,
                                                      const std::vector<std::byte>& data) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> out(sizeof(length) + header.size() + data.size());
  std::memcpy(out.data(), &length, sizeof(length));
  std::copy_n(reinterpret_cast<const std::byte*>(header.data()), header.size(), out.begin() + sizeof(length));
  std::copy(data.begin(), data.end(), out.end() - static_cast<std::ptrdiff_t>(data.size()));
  return out;
}

std::vector<std::byte> safetensors_builder::build() const {
  std::string header = "{" + prologue + entries_ + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return build_raw(header, data_);
}

void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  write_text(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  PACELINE_CHECK(out.good(), path.string());
}

std::string tiny_hf_config(const tiny_model& options, const tiny_fp8& fp8) {
  const bool is_gemma = options.arch == architecture::gemma3;
  std::ostringstream out;
  const bool is_mixture = options.arch == architecture::qwen3moe;
  out << R"({"model_type":")" << family_model_type(options.arch) << '"';
  const auto number = [&](const char* key, std::uint64_t value) { out << ",\"" << key << "\":" << value; };
  number("vocab_size", options.vocab_size);
  number("max_position_embeddings", options.context_length);
  number("hidden_size", options.hidden_size);
  number("num_hidden_layers", options.num_layers);
  number("num_attention_heads", options.num_heads);
  number("num_key_value_heads", options.num_kv_heads);
  number("head_dim", options.head_dim);
  number("intermediate_size", options.ffn_size);
  number("rope_theta", 10000);
  number("eos_token_id", 1);
  if (is_gemma) {
    number("sliding_window", options.sliding_window);
    number("sliding_window_pattern", options.sliding_pattern);
    number("query_pre_attn_scalar", options.head_dim);
    number("rope_local_base_freq", 1000);
  }
  if (is_mixture) {
    number("num_experts", options.num_experts);
    number("num_experts_per_tok", options.num_used_experts);
    number("moe_intermediate_size", options.expert_ffn_size);
    out << R"(,"norm_topk_prob":)" << (options.normalised_experts ? "true" : "false");
    if (options.dense_layer >= 0) out << R"(,"mlp_only_layers":[)" << options.dense_layer << ']';
  }
  out << family_members(options);
  if (!fp8.decoded && fp8.scales != fp8_scales::none)
    out << R"(,"quantization_config":)" << quantization_config(fp8.scales);
  out << R"(,"rms_norm_eps":1e-5,"tie_word_embeddings":)" << (options.tied_embeddings ? "true}" : "false}");
  return out.str();
}

void write_tiny_hf(const tiny_model& options, const std::filesystem::path& directory, std::size_t num_shards,
                   const tiny_fp8& fp8) {
  std::filesystem::create_directories(directory);
  write_text(directory / "config.json", tiny_hf_config(options, fp8));
  const auto gguf = make_tiny_gguf(options);
  std::vector<safetensors_builder> shards(num_shards);
  std::size_t next = 0;
  for (const auto& tensor : gguf.tensors()) {
    if (tensor.name.starts_with("rope_factors")) continue; // in config.json
    auto& shard = shards[next++ * num_shards / gguf.tensors().size()];
    const std::vector<std::uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    auto name = hf_name(tensor.name, options.arch);
    if (options.fused_experts && name.find('*') != std::string::npos)
      name = name.substr(0, name.find('*')) + "down_proj";
    if (name.find('*') != std::string::npos)
      add_each_expert(shard, name, tensor, fp8);
    else if (fp8.scales != fp8_scales::none && name.ends_with("_proj.weight"))
      add_fp8(shard, name, shape, hf_data(tensor, options), fp8);
    else if (fp8.scales != fp8_scales::none && shape.size() == 2)
      add_brief(shard, name, shape, hf_data(tensor, options), fp8.decoded);
    else
      shard.add(name, device::traits_of(tensor.type)->name, shape, hf_data(tensor, options));
  }
  std::string map;
  for (std::size_t shard = 0; shard < num_shards; ++shard) {
    write_bytes(directory / shard_name(shard, num_shards), shards[shard].build());
    for (const auto& name : shards[shard].names())
      map += (map.empty() ? "\"" : ",\"") + name + R"(":")" + shard_name(shard, num_shards) + '"';
  }
  if (num_shards > 1)
    write_text(directory / "model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
}

void write_tiny_tokenizer(const std::filesystem::path& directory, std::uint32_t num_tokens) {
  std::string vocabulary;
  for (std::uint32_t t = 0; t < num_tokens; ++t)
    vocabulary += (t == 0 ? "\"t" : ",\"t") + std::to_string(t) + "\u0120\":" + std::to_string(t);
  write_text(
      directory / "tokenizer.json",
      R"({"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"post_processor":null,
                 "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
          vocabulary + R"(},"merges":[]}})");
}

} // namespace paceline::test
