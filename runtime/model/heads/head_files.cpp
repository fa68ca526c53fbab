#include "runtime/model/heads/head_files.hpp"

#include "runtime/model/loader/hf_directory.hpp"
#include "runtime/model/loader/json_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace paceline::model {

std::uint64_t head_tensor::num_values() const noexcept {
  std::uint64_t values = 1;
  for (std::uint32_t d = 0; d < num_dims; ++d) values *= shape[d]; // the container's parser has checked it
  return values;
}

expected<void> head_tensor::read(std::span<const std::byte> part) const {
  return from ? from->read(part) : expected<void>();
}

void head_tensor::release(std::span<const std::byte> part) const noexcept {
  if (from) from->release(part);
}

namespace {

/// Names of a layer's tensors, without the part "blk.N.": first in GGUF files, then in directories.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> layer_parts = {{
    {"attn_norm", "input_layernorm"},
    {"attn_norm_2", "hidden_norm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> end_parts = {{
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"output", "lm_head"},
}};

/// The file that holds the bytes; null if they are in memory.
std::shared_ptr<const partial_file> file_of(const gguf_file& file, std::span<const std::byte> data) {
  for (const auto& part : file.files()) {
    const auto bytes = part->bytes();
    const std::less_equal<const std::byte*> at_most;
    if (at_most(bytes.data(), data.data()) && at_most(data.data() + data.size(), bytes.data() + bytes.size()))
      return part;
  }
  return nullptr;
}

} // namespace

std::string name_in_directories(std::string_view in_gguf) {
  const std::size_t dot = in_gguf.rfind('.');
  if (dot == std::string_view::npos) return std::string(in_gguf);
  std::string_view part = in_gguf.substr(0, dot);
  std::string prefix;
  const bool is_of_layer = part.starts_with("blk.") && part.find('.', 4) != std::string_view::npos;
  if (is_of_layer) {
    const std::size_t end = part.find('.', 4) + 1;
    prefix = "layers." + std::string(part.substr(4, end - 4));
    part.remove_prefix(end);
  }
  const auto named = [&](const auto& parts) {
    const auto found = std::ranges::find(parts, part, [](const auto& pair) { return pair.first; });
    return found == parts.end() ? std::string(in_gguf)
                                : prefix + std::string(found->second) + std::string(in_gguf.substr(dot));
  };
  return is_of_layer ? named(layer_parts) : named(end_parts);
}

std::string name_in_gguf(std::string_view in_directories) {
  constexpr std::string_view layers = "layers.";
  const std::size_t dot = in_directories.rfind('.');
  const bool is_of_layer = in_directories.starts_with(layers);
  const std::size_t begin = is_of_layer ? in_directories.find('.', layers.size()) + 1 : 0;
  if (dot == std::string_view::npos || dot < begin) return std::string(in_directories);
  const std::string_view part = in_directories.substr(begin, dot - begin);
  const std::string number(is_of_layer ? in_directories.substr(layers.size(), begin - layers.size()) : "");
  const auto named = [&](const auto& parts) {
    const auto found = std::ranges::find(parts, part, [](const auto& pair) { return pair.second; });
    return found == parts.end() ? std::string(in_directories)
                                : (is_of_layer ? "blk." : "") + number + std::string(found->first) +
                                      std::string(in_directories.substr(dot));
  };
  return is_of_layer ? named(layer_parts) : named(end_parts);
}

bool is_gguf_head(const std::filesystem::path& path) {
  std::error_code ignored; // a path that cannot be examined fails to open, with a reason
  return std::filesystem::is_regular_file(path, ignored);
}

std::vector<head_tensor> tensors_of(const gguf_file& file) {
  std::vector<head_tensor> tensors;
  for (const gguf_tensor& one : file.tensors()) {
    head_tensor made{std::string(one.name), {1, 1, 1, 1, 1}, one.num_dims,           one.type,
                     one.integer_bytes,     one.data,        file_of(file, one.data)};
    std::reverse_copy(one.shape.begin(), one.shape.begin() + one.num_dims, made.shape.begin());
    tensors.push_back(std::move(made));
  }
  return tensors;
}

expected<std::vector<head_tensor>> open_head_files(const std::filesystem::path& path) {
  if (is_gguf_head(path)) {
    const auto file = gguf_file::open(path);
    if (!file) return file.error();
    return tensors_of(*file);
  }
  const auto files = open_weight_files(path);
  if (!files) return files.error();
  std::vector<head_tensor> tensors;
  for (const safetensors_file& file : *files)
    for (const safetensors_tensor& one : file.tensors())
      tensors.push_back(
          {one.name, one.shape, one.num_dims, one.type, one.integer_bytes, one.data, file.from()});
  return tensors;
}

expected<boost::json::object> config_if_any(const std::filesystem::path& directory) {
  const auto path = directory / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return boost::json::object();
  return read_json_file(path);
}

expected<bool> are_equal(const head_tensor& a, const head_tensor& b) {
  if (a.type != b.type || a.integer_bytes != b.integer_bytes || a.num_dims != b.num_dims ||
      a.shape != b.shape)
    return false;
  return are_equal(file_bytes{a.data, a.from}, file_bytes{b.data, b.from});
}

} // namespace paceline::model
