#include "tests/support/tiny_head.hpp"

#include "tests/support/tiny_hf_model.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <utility>

namespace paceline::test {

namespace {

constexpr std::uint64_t num_heads = 4, num_kv_heads = 2, head_dim = 8, ffn_size = 48;

boost::json::object config_of(std::uint32_t hidden, std::uint32_t vocab) {
  return {{"architectures", {"LlamaForCausalLMEagle3"}},
          {"hidden_size", hidden},
          {"intermediate_size", ffn_size},
          {"num_attention_heads", num_heads},
          {"num_key_value_heads", num_kv_heads},
          {"head_dim", head_dim},
          {"num_hidden_layers", 40}, // as a published file says; there is one
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 64},
          {"vocab_size", vocab}};
}

std::vector<std::byte> bytes_of(const tiny_head::tensor& tensor) {
  if (!tensor.codes.empty()) return tensor.codes;
  const auto from = tensor.integers.empty() ? std::as_bytes(std::span(tensor.values))
                                            : std::as_bytes(std::span(tensor.integers));
  return {from.begin(), from.end()};
}

} // namespace

void tiny_head::add(const std::string& name, std::vector<std::uint64_t> shape) {
  std::uint64_t size = 1;
  for (const std::uint64_t dim : shape) size *= dim;
  const bool is_norm = name.find("norm") != std::string::npos;
  std::mt19937_64 random(std::hash<std::string>{}(name));
  std::normal_distribution<float> normal(is_norm ? 1.0F : 0.0F, 0.2F);
  tensor made{std::move(shape), std::vector<float>(size)};
  for (float& value : made.values) value = normal(random);
  tensors[name] = std::move(made);
}

void tiny_head::rename(const std::string& from, const std::string& to) {
  auto node = tensors.extract(from);
  node.key() = to;
  tensors.insert(std::move(node));
}

void tiny_head::stack(const std::string& prefix, const std::vector<std::string>& names,
                      const std::string& to) {
  tensor made{{0, 0, 0}, {}};
  for (std::uint64_t number = 0;; ++number) {
    const auto of = [&](const std::string& name) {
      return prefix + std::to_string(number) + "." + name + ".weight";
    };
    if (!tensors.contains(of(names.front()))) break;
    std::uint64_t rows = 0;
    for (const std::string& name : names) {
      const tensor one = std::move(tensors.extract(of(name)).mapped());
      made.values.insert(made.values.end(), one.values.begin(), one.values.end());
      rows += one.shape[0];
      made.shape[2] = one.shape[1];
    }
    made.shape[0] = number + 1, made.shape[1] = rows;
  }
  tensors[to] = std::move(made);
}

void tiny_head::add_layer(const std::string& prefix, std::uint64_t hidden, std::uint64_t inputs,
                          std::uint64_t ffn) {
  add(prefix + "self_attn.q_proj.weight", {num_heads * head_dim, inputs});
  add(prefix + "self_attn.k_proj.weight", {num_kv_heads * head_dim, inputs});
  add(prefix + "self_attn.v_proj.weight", {num_kv_heads * head_dim, inputs});
  add(prefix + "self_attn.o_proj.weight", {hidden, num_heads * head_dim});
  add(prefix + "post_attention_layernorm.weight", {hidden});
  add(prefix + "mlp.gate_proj.weight", {ffn, hidden});
  add(prefix + "mlp.up_proj.weight", {ffn, hidden});
  add(prefix + "mlp.down_proj.weight", {hidden, ffn});
}

tiny_head tiny_head::eagle3(std::uint32_t hidden, std::uint32_t target_hidden, std::uint32_t vocab,
                            std::uint32_t draft_vocab) {
  tiny_head made;
  made.config = config_of(hidden, vocab);
  made.config["draft_vocab_size"] = draft_vocab;
  made.add("fc.weight", {hidden, std::uint64_t{3} * target_hidden});
  made.add("midlayer.input_layernorm.weight", {hidden});
  made.add("midlayer.hidden_norm.weight", {hidden});
  made.add_layer("midlayer.", hidden, std::uint64_t{2} * hidden);
  made.add("norm.weight", {hidden});
  made.add("lm_head.weight", {draft_vocab, hidden});
  tensor offsets{{draft_vocab}, {}, {}};
  for (std::int64_t i = 0; i < draft_vocab; ++i) offsets.integers.push_back(i); // token 2 i
  made.tensors["d2t"] = std::move(offsets);
  return made;
}

tiny_head tiny_head::eagle(std::uint32_t hidden, std::uint32_t vocab) {
  tiny_head made;
  made.config = config_of(hidden, vocab);
  made.add("fc.weight", {hidden, std::uint64_t{2} * hidden});
  made.add("fc.bias", {hidden});
  made.add_layer("layers.0.", hidden, hidden);
  return made;
}

tiny_head tiny_head::dflash(std::uint32_t hidden, std::uint32_t vocab) {
  tiny_head made;
  made.config = config_of(hidden, vocab);
  made.config["architectures"] = {"DFlashDraftModel"};
  made.config["model_type"] = "qwen3";
  made.config["block_size"] = 4;
  made.config["dflash_config"] = {{"mask_token_id", 3}};
  made.add("fc.weight", {hidden, std::uint64_t{2} * hidden});
  made.add("hidden_norm.weight", {hidden});
  made.add("norm.weight", {hidden});
  for (const std::string prefix : {"layers.0.", "layers.1."}) {
    made.add_layer(prefix, hidden, hidden);
    made.add(prefix + "input_layernorm.weight", {hidden});
    made.add(prefix + "self_attn.q_norm.weight", {head_dim});
    made.add(prefix + "self_attn.k_norm.weight", {head_dim});
  }
  return made;
}

tiny_head tiny_head::dspark(std::uint32_t hidden, std::uint32_t vocab, const std::string& markov_kind) {
  constexpr std::uint64_t rank = 8;
  tiny_head made = dflash(hidden, vocab);
  made.config["dflash_config"] = {{"mask_token_id", 3},
                                  {"projector_type", "dspark"},
                                  {"markov_rank", rank},
                                  {"markov_head_type", markov_kind},
                                  {"enable_confidence_head", true},
                                  {"confidence_head_with_markov", true}};
  made.add("markov_head.markov_w1.weight", {vocab, rank});
  made.add("markov_head.markov_w2.weight", {vocab, rank});
  made.add("confidence_head.proj.weight", {1, hidden + rank});
  made.add("confidence_head.proj.bias", {1});
  if (markov_kind == "gated") {
    made.add("markov_head.gate_proj.weight", {rank, hidden + rank});
    made.add("markov_head.gate_proj.bias", {rank});
  } else if (markov_kind == "rnn") {
    made.add("markov_head.joint_proj.weight", {3 * rank, 2 * rank + hidden});
    made.add("markov_head.joint_proj.bias", {3 * rank});
  }
  return made;
}

void tiny_head::add_module(const std::string& prefix, const std::string& layer, std::uint64_t hidden,
                           const std::array<const char*, 4>& names) {
  add(prefix + names[0] + ".weight", {hidden, 2 * hidden});
  for (std::size_t i = 1; i < names.size(); ++i) add(prefix + names[i] + ".weight", {hidden});
  add_layer(prefix + layer, hidden, hidden);
  add(prefix + layer + "input_layernorm.weight", {hidden});
}

tiny_head tiny_head::mtp_next(std::uint32_t hidden, std::uint32_t vocab) {
  tiny_head made;
  made.config = config_of(hidden, vocab);
  made.config["mtp_num_hidden_layers"] = 1;
  made.add_module("mtp.", "layers.0.", hidden, {"fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"});
  made.add("mtp.layers.0.self_attn.q_proj.weight", {2 * num_heads * head_dim, hidden});
  for (const char* const norm : {"q_norm", "k_norm"})
    made.add(std::string("mtp.layers.0.self_attn.") + norm + ".weight", {head_dim});
  return made;
}

tiny_head tiny_head::mtp_experts(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_experts) {
  constexpr std::uint64_t inner = 32, shared = 64;
  tiny_head made = mtp_next(hidden, vocab);
  made.config.erase("intermediate_size");
  made.config["model_type"] = "qwen3_5_moe_text";
  made.config["num_experts"] = num_experts;
  made.config["num_experts_per_tok"] = 3;
  made.config["moe_intermediate_size"] = inner;
  made.config["shared_expert_intermediate_size"] = shared;
  const std::string mlp = "mtp.layers.0.mlp.";
  for (const char* const part : {"gate_proj", "up_proj", "down_proj"})
    made.tensors.erase(mlp + part + ".weight");
  const auto add_block = [&](const std::string& prefix, std::uint64_t size) {
    made.add(prefix + "gate_proj.weight", {size, hidden});
    made.add(prefix + "up_proj.weight", {size, hidden});
    made.add(prefix + "down_proj.weight", {hidden, size});
  };
  for (std::uint32_t e = 0; e < num_experts; ++e)
    add_block(mlp + "experts." + std::to_string(e) + ".", inner);
  add_block(mlp + "shared_expert.", shared);
  made.add(mlp + "gate.weight", {num_experts, hidden});
  made.add(mlp + "shared_expert_gate.weight", {1, hidden});
  return made;
}

tiny_head tiny_head::mtp_mimo(std::uint32_t hidden, std::uint32_t vocab) {
  tiny_head made;
  made.config = config_of(hidden, vocab);
  made.config["num_nextn_predict_layers"] = 1;
  made.add_module("model.mtp_layers.0.", "", hidden,
                  {"input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm"});
  return made;
}

tiny_head tiny_head::medusa(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads) {
  tiny_head made;
  for (std::uint32_t i = 0; i < num_heads; ++i) {
    const std::string head = std::to_string(i) + ".";
    made.add(head + "0.linear.weight", {hidden, hidden});
    made.add(head + "0.linear.bias", {hidden});
    made.add(head + "1.weight", {vocab, hidden});
  }
  return made;
}

tiny_head tiny_head::medusa_vllm(std::uint32_t hidden, std::uint32_t vocab) {
  tiny_head made = medusa(hidden, vocab);
  for (const std::string head : {"0.", "1."}) {
    for (const char* const part : {"weight", "bias"})
      made.rename(head + "0.linear." + part, "blocks." + head + "layers.0." + part);
    made.rename(head + "1.weight", "lm_heads." + head + "weight");
  }
  return made;
}

tiny_head tiny_head::hydra(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads) {
  tiny_head made;
  made.config = {{"hydra_head_arch", "mlp"}, {"grounded_heads", true}};
  for (std::uint64_t i = 0; i < num_heads; ++i) {
    const std::string head = std::to_string(i);
    for (const char* const part : {"linear", "res_connection"}) {
      made.add("hydra_mlp." + head + ".0." + part + ".weight", {hidden, (i + 2) * hidden});
      made.add("hydra_mlp." + head + ".0." + part + ".bias", {hidden});
    }
    made.add("hydra_lm_head." + head + ".weight", {vocab, hidden});
    made.add("hydra_lm_head." + head + ".bias", {vocab});
  }
  return made;
}

tiny_head tiny_head::hydra_prefix(std::uint32_t hidden, std::uint32_t vocab, std::uint64_t ffn) {
  tiny_head made = hydra(hidden, vocab);
  made.config["hydra_head_arch"] = "prefix-mlp";
  const auto plain = made.tensors;
  for (const auto& [name, one] : plain) {
    std::string to = name;
    const bool is_lm_head = name.starts_with("hydra_lm_head.");
    to.replace(is_lm_head ? 15 : 11, is_lm_head ? 1 : 3, ".1."); // behind the head's number
    made.rename(name, to);
  }
  const std::string prefix = "prefix_embeding_layer.";
  made.add_layer(prefix + "layers.0.", hidden, hidden, ffn);
  made.add(prefix + "layers.0.input_layernorm.weight", {hidden});
  made.add(prefix + "norm.weight", {hidden});
  return made;
}

tiny_head tiny_head::mlp_speculator(std::uint32_t hidden, std::uint32_t vocab) {
  constexpr std::uint64_t inner = 48;
  tiny_head made;
  made.config = {{"n_predict", 3}, {"inner_dim", inner}, {"emb_dim", hidden}, {"vocab_size", vocab}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::string level = "." + std::to_string(i) + ".";
    made.add("emb" + level + "weight", {vocab, inner});
    made.add("proj" + level + "weight", {inner, i == 0 ? hidden : inner});
    made.add("head" + level + "weight", {vocab, inner});
    made.add("ln" + level + "weight", {inner});
    made.add("ln" + level + "bias", {inner});
  }
  return made;
}

void tiny_head::round_to_fp8(fp8_scales scales, bool decoded) {
  const auto all = tensors;
  for (const auto& [name, one] : all) {
    if (!name.ends_with("_proj.weight") || one.shape.at(1) % 64 != 0) continue;
    const fp8_matrix made = quantise_fp8(one.values, one.shape[0], one.shape[1], scales);
    if (decoded) {
      tensors.at(name).values = made.values;
      continue;
    }
    tensors.at(name).codes = made.codes;
    tensors[name + (scales == fp8_scales::blocks ? "_scale_inv" : "_scale")] = {made.scale_shape,
                                                                                made.scales};
  }
  if (!decoded) config["quantization_config"] = boost::json::parse(quantization_config(scales));
}

void tiny_head::write(const std::filesystem::path& directory) const {
  safetensors_builder file;
  for (const auto& [name, one] : tensors)
    file.add(name,
             !one.codes.empty()     ? "F8_E4M3"
             : one.integers.empty() ? "F32"
                                    : "I64",
             one.shape, bytes_of(one));
  write_bytes(directory / "model.safetensors", file.build());
  write_text(directory / "config.json", boost::json::serialize(config));
}

} // namespace paceline::test
