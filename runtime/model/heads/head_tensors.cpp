#include "runtime/model/heads/head_tensors.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/model/heads/quantise.hpp"
#include "runtime/model/loader/hf_directory.hpp"
#include "runtime/model/loader/json_text.hpp"
#include "runtime/model/loader/quote.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace paceline::model {

namespace {

using device::tensor_type;

std::string shape_of(const safetensors_tensor& tensor) {
  std::string text;
  for (std::uint32_t d = 0; d < tensor.num_dims; ++d) text += "[" + std::to_string(tensor.shape[d]) + "]";
  return text.empty() ? "[]" : text;
}

/// Whether the tensor has `rows` times `cols` values; a vector has one row, and may be stored with leading
/// dimensions of 1.
bool has_shape(const safetensors_tensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  std::uint64_t leading = 1;
  for (std::uint32_t d = 0; d + 1 < tensor.num_dims; ++d) leading *= tensor.shape[d];
  return tensor.num_dims >= 1 && leading == rows && tensor.shape[tensor.num_dims - 1] == cols;
}

float float_at(tensor_type type, std::span<const std::byte> bytes, std::size_t index) {
  if (type == tensor_type::f32) {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(bits), sizeof(bits));
  return type == tensor_type::f16 ? device::float_of_f16(bits) : device::float_of_bf16(bits);
}

} // namespace

expected<double> setting_of(const std::filesystem::path& directory, std::string_view key, double value) {
  const auto path = directory / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return value;
  auto object = read_json_file(path);
  if (!object) return std::move(object).error();
  std::optional<error> failure;
  const double found =
      json_node(*object, path.string(), failure, json_node::naming::key)[key].setting_or(value);
  if (failure) return *failure;
  return found;
}

expected<void> expect_setting(const std::filesystem::path& directory, std::string_view key, double value) {
  const auto found = setting_of(directory, key, value);
  if (!found) return found.error();
  if (*found == value) return {};
  return error(errc::unsupported, (directory / "config.json").string() + ": key " + quote(key) + " must be " +
                                      std::to_string(static_cast<int>(value)));
}

expected<head_tensors> head_tensors::open(const std::filesystem::path& directory,
                                          const name_of_tensor& name_of, device::weight_memory& weights,
                                          std::optional<device::tensor_type> format) {
  auto made = open(directory, name_of);
  if (!made) return made;
  made->weights_ = &weights;
  made->format_ = format;
  return made;
}

expected<head_tensors> head_tensors::open(const std::filesystem::path& directory,
                                          const name_of_tensor& name_of) {
  auto files = open_weight_files(directory);
  if (!files) return std::move(files).error();
  head_tensors made;
  made.directory_ = directory.string();
  made.files_ = *std::move(files);
  for (const safetensors_file& file : made.files_)
    for (const safetensors_tensor& tensor : file.tensors()) {
      if (name_of(tensor.name).empty()) continue;
      const bool is_new = made.tensors_.emplace(name_of(tensor.name), found_tensor{&file, &tensor}).second;
      if (!is_new)
        return error(errc::invalid_file, file.name() + ": tensor " + quote(tensor.name) + " occurs twice");
    }
  return made;
}

std::uint64_t head_tensors::num_rows(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() || found->second.tensor->num_dims != 2 ? 0 : found->second.tensor->shape[0];
}

std::uint32_t head_tensors::num_layers() const {
  std::uint32_t count = 0;
  for (;; ++count) {
    const std::string prefix = "layers." + std::to_string(count) + ".";
    const auto first = tensors_.lower_bound(prefix);
    if (first == tensors_.end() || !first->first.starts_with(prefix)) return count;
  }
}

void head_tensors::refuse(const std::string& tensor, const std::string& rule) {
  if (!failure_) failure_ = error(errc::invalid_file, directory_ + ": tensor " + quote(tensor) + " " + rule);
}

std::optional<head_tensors::found_tensor> head_tensors::take(const std::string& name, bool required,
                                                             std::uint64_t rows, std::uint64_t cols) {
  if (failure_) return std::nullopt;
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    if (required) refuse(name, "is missing");
    return std::nullopt;
  }
  const found_tensor taken = found->second;
  tensors_.erase(found);
  if (!has_shape(*taken.tensor, rows, cols)) {
    const std::string wanted =
        (rows == 1 ? "" : "[" + std::to_string(rows) + "]") + "[" + std::to_string(cols) + "]";
    refuse(taken.tensor->name, "must have the shape " + wanted + ", has " + shape_of(*taken.tensor));
    return std::nullopt;
  }
  if (taken.file->from())
    if (auto read = taken.file->from()->read(taken.tensor->data); !read) {
      failure_ = std::move(read).error();
      return std::nullopt;
    }
  return taken;
}

std::optional<head_tensors::found_tensor> head_tensors::take_floats(const std::string& name, bool required,
                                                                    std::uint64_t rows, std::uint64_t cols) {
  const auto taken = take(name, required, rows, cols);
  if (!taken || (taken->tensor->integer_bytes == 0 && taken->tensor->type != tensor_type::f8_e4m3))
    return taken;
  refuse(taken->tensor->name, "must be F32, F16 or BF16");
  return std::nullopt;
}

/// Packs `bytes`, values of the tensor's type, in the format that was asked for.
std::unique_ptr<const device::matrix> head_tensors::pack(const safetensors_tensor& tensor, std::uint64_t rows,
                                                         std::uint64_t cols,
                                                         std::span<const std::byte> bytes) {
  device::tensor_view view{tensor.type, rows, cols, bytes};
  std::vector<std::byte> quantised;
  if (format_ && cols % device::traits_of(*format_)->block_values == 0) {
    std::vector<float> values(rows * cols);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float_at(tensor.type, bytes, i);
    quantised = quantise(values, *format_);
    view = {*format_, rows, cols, quantised};
  }
  auto packed = weights_->pack(tensor.name, view);
  if (packed) return *std::move(packed);
  failure_ = std::move(packed).error();
  return nullptr;
}

std::unique_ptr<const device::matrix> head_tensors::matrix(const std::string& name, std::uint64_t rows,
                                                           std::uint64_t cols) {
  const auto taken = take_floats(name, true, rows, cols);
  if (!taken) return nullptr;
  const safetensors_tensor& tensor = *taken->tensor;
  auto packed = pack(tensor, rows, cols, tensor.data);
  if (taken->file->from()) taken->file->from()->release(tensor.data);
  return packed;
}

void head_tensors::vector(const std::string& name, std::uint64_t size, const float*& to, bool required) {
  const auto taken = take_floats(name, required, 1, size);
  if (!taken) return;
  const safetensors_tensor& tensor = *taken->tensor;
  std::vector<float> values(size);
  const float offset = name.find("norm") != std::string::npos ? norm_offset_ : 0;
  for (std::size_t i = 0; i < size; ++i) values[i] = float_at(tensor.type, tensor.data, i) + offset;
  vectors_.push_back({std::move(values), &to});
}

std::vector<float> head_tensors::floats(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
  const auto taken = take_floats(name, true, rows, cols);
  if (!taken) return {};
  std::vector<float> values(rows * cols);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = float_at(taken->tensor->type, taken->tensor->data, i);
  return values;
}

void head_tensors::constant(std::uint64_t size, float value, const float*& to) {
  vectors_.push_back({std::vector<float>(size, value), &to});
}

void head_tensors::gated_queries(const std::string& name, const model_config& config, std::uint64_t cols,
                                 layer_weights& to) {
  const auto taken = take_floats(name, true, std::uint64_t{2} * config.q_size(), cols);
  if (!taken) return;
  const safetensors_tensor& tensor = *taken->tensor;
  const std::size_t head_bytes = tensor.data.size() / 2 / config.num_heads;
  for (const bool is_gate : {false, true}) {
    std::vector<std::byte> rows;
    for (std::uint32_t h = 0; h < config.num_heads; ++h) {
      const auto part = tensor.data.subspan((2 * h + (is_gate ? 1 : 0)) * head_bytes, head_bytes);
      rows.insert(rows.end(), part.begin(), part.end());
    }
    (is_gate ? to.attention_gate : to.q) = pack(tensor, config.q_size(), cols, rows);
  }
}

void head_tensors::stacked(const std::string& name, std::uint64_t cols,
                           std::initializer_list<stacked_part> parts) {
  std::uint64_t rows = 0;
  for (const stacked_part& part : parts) rows += part.rows;
  const auto taken = take_floats(name, true, rows, cols);
  if (!taken) return;
  const safetensors_tensor& tensor = *taken->tensor;
  const std::size_t row_bytes = tensor.data.size() / rows;
  std::size_t begin = 0;
  for (const stacked_part& part : parts) {
    part.to = pack(tensor, part.rows, cols, tensor.data.subspan(begin, part.rows * row_bytes));
    begin += part.rows * row_bytes;
  }
}

std::vector<std::int64_t> head_tensors::integers(const std::string& name, std::uint64_t size) {
  const auto taken = take(name, true, 1, size);
  if (!taken) return {};
  if (taken->tensor->integer_bytes != sizeof(std::int64_t)) {
    refuse(taken->tensor->name, "must be I64");
    return {};
  }
  std::vector<std::int64_t> values(size);
  std::memcpy(values.data(), taken->tensor->data.data(), size * sizeof(std::int64_t));
  return values;
}

void head_tensors::layer(const std::string& prefix, const model_config& config, std::uint32_t input_size,
                         layer_weights& to, bool may_be_gated) {
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  const std::uint32_t hidden = config.hidden_size;
  const std::uint64_t queries = config.q_size(), keys = config.kv_size(), inner = config.ffn_size;
  const bool is_gated = may_be_gated && num_rows(attention + "q_proj.weight") == 2 * queries;
  if (has(attention + "qkv_proj.weight")) {
    stacked(attention + "qkv_proj.weight", input_size, {{queries, to.q}, {keys, to.k}, {keys, to.v}});
  } else {
    if (is_gated)
      gated_queries(attention + "q_proj.weight", config, input_size, to);
    else
      to.q = matrix(attention + "q_proj.weight", queries, input_size);
    to.k = matrix(attention + "k_proj.weight", keys, input_size);
    to.v = matrix(attention + "v_proj.weight", keys, input_size);
  }
  to.attention_output = matrix(attention + "o_proj.weight", hidden, queries);
  if (has(mlp + "gate_up_proj.weight")) {
    stacked(mlp + "gate_up_proj.weight", hidden, {{inner, to.ffn_gate}, {inner, to.ffn_up}});
  } else {
    to.ffn_gate = matrix(mlp + "gate_proj.weight", inner, hidden);
    to.ffn_up = matrix(mlp + "up_proj.weight", inner, hidden);
  }
  to.ffn_down = matrix(mlp + "down_proj.weight", hidden, inner);
  vector(attention + "q_proj.bias", config.q_size(), to.q_bias, false);
  vector(attention + "k_proj.bias", config.kv_size(), to.k_bias, false);
  vector(attention + "v_proj.bias", config.kv_size(), to.v_bias, false);
  vector(attention + "o_proj.bias", hidden, to.attention_output_bias, false);
  vector(attention + "q_norm.weight", config.head_dim, to.q_norm, false);
  vector(attention + "k_norm.weight", config.head_dim, to.k_norm, false);
  vector(prefix + "input_layernorm.weight", hidden, to.attention_norm, false);
  vector(prefix + "post_attention_layernorm.weight", hidden, to.ffn_norm);
}

expected<void> head_tensors::check_all_taken() {
  if (!failure_ && !tensors_.empty())
    refuse(tensors_.begin()->second.tensor->name, "has no meaning in a head of this kind");
  if (failure_) return *failure_;
  return {};
}

expected<std::unique_ptr<device::buffer>> head_tensors::upload(device::buffer_memory& memory) {
  if (auto whole = check_all_taken(); !whole) return std::move(whole).error();
  constexpr std::uint64_t line = 64;
  const auto padded = [](const pending_vector& one) {
    return (one.values.size() * sizeof(float) + line - 1) / line * line;
  };
  std::uint64_t total = 0;
  for (const pending_vector& one : vectors_) total += padded(one);
  auto buffer = memory.allocate(std::max(total, line));
  std::uint64_t offset = 0;
  for (const pending_vector& one : vectors_) {
    buffer->upload(offset, std::as_bytes(std::span(one.values)));
    *one.to = reinterpret_cast<const float*>(buffer->data() + offset);
    offset += padded(one);
  }
  return buffer;
}

} // namespace paceline::model
