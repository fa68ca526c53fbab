#include "runtime/model/heads/files/head_tensors.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/model/heads/files/quantise.hpp"
#include "runtime/model/loader/weights/fp8_weights.hpp"
#include "runtime/model/loader/weights/tensor_role.hpp"
#include "runtime/model/loader/weights/weight_view.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

namespace paceline::model {

namespace {

using device::tensor_type;

std::string shape_of(const head_tensor& tensor) {
  return tensor.num_dims == 0 ? "[]" : shape_text(std::span(tensor.shape).first(tensor.num_dims));
}

/// True if the tensor has `rows` times `cols` values. A vector counts as one row. The shape may have leading
/// dimensions of 1.
bool has_shape(const head_tensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  std::uint64_t leading = 1;
  for (std::uint32_t d = 0; d + 1 < tensor.num_dims; ++d) leading *= tensor.shape[d];
  return tensor.num_dims >= 1 && leading == rows && tensor.shape[tensor.num_dims - 1] == cols;
}

safetensors_tensor in_file(const head_tensor& tensor) {
  return {tensor.name, tensor.shape, tensor.num_dims, tensor.type, tensor.integer_bytes, tensor.data};
}

/// Replaces codes and scales, which were read, by the blocks that a device packs.
void make_blocks(head_tensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  auto blocks = std::make_shared<const std::vector<std::byte>>(
      f8_blocks({tensor.name, {tensor.type, rows, cols, tensor.data}, tensor.scales.get()}));
  tensor.release(tensor.data);
  tensor.scales = nullptr;
  tensor.from = nullptr;
  tensor.data = *blocks;
  tensor.made = std::move(blocks);
}

} // namespace

expected<double> setting_of(const std::filesystem::path& directory, std::string_view key, double value) {
  auto object = config_if_any(directory);
  if (!object) return std::move(object).error();
  std::optional<error> failure;
  const std::string file = (directory / "config.json").string();
  const double found = json_node(*object, file, failure, json_node::naming::key)[key].setting_or(value);
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

expected<head_tensors> head_tensors::open(const std::filesystem::path& path, const name_of_tensor& name_of,
                                          device::weight_memory& weights,
                                          std::optional<device::tensor_type> format) {
  auto found = open_head_files(path);
  if (!found) return std::move(found).error();
  return of(*std::move(found), path, name_of, weights, format);
}

expected<head_tensors> head_tensors::open(const std::filesystem::path& path, const name_of_tensor& name_of) {
  auto found = open_head_files(path);
  if (!found) return std::move(found).error();
  return named(*std::move(found), path, name_of);
}

expected<head_tensors> head_tensors::of(std::vector<head_tensor> found, const std::filesystem::path& path,
                                        const name_of_tensor& name_of, device::weight_memory& weights,
                                        std::optional<device::tensor_type> format) {
  auto made = named(std::move(found), path, name_of);
  if (!made) return made;
  made->weights_ = &weights;
  made->format_ = format;
  return made;
}

expected<head_tensors> head_tensors::named(std::vector<head_tensor> found, const std::filesystem::path& path,
                                           const name_of_tensor& name_of) {
  head_tensors made;
  made.path_ = path.string();
  for (head_tensor& tensor : found) {
    if (tensor.name.ends_with("rotary_emb.inv_freq")) continue; // follows from the config
    const std::string own = name_of(tensor.name);
    auto& named = own.empty() ? made.others_ : made.tensors_;
    if (!named.try_emplace(own.empty() ? tensor.name : own, tensor).second)
      return error(errc::invalid_file, made.path_ + ": tensor " + quote(tensor.name) + " occurs twice");
  }
  if (auto claimed = made.claim_scales(path); !claimed) return std::move(claimed).error();
  return made;
}

/// The scales of `weight`, a name in the files, in any part of the checkpoint; null if there are none.
const head_tensor* head_tensors::scales_of(const std::string& own, const std::string& weight) const {
  for (const auto suffix : fp8_scale_suffixes) {
    if (const auto found = tensors_.find(own + std::string(suffix)); found != tensors_.end())
      return &found->second;
    if (const auto found = others_.find(weight + std::string(suffix)); found != others_.end())
      return &found->second;
  }
  return nullptr;
}

/// Assigns the scales of F8_E4M3 matrices to them, and drops those that are not used.
expected<void> head_tensors::claim_scales(const std::filesystem::path& path) {
  std::optional<fp8_quantisation> quantisation;
  std::vector<std::string> claimed;
  for (auto& [own, tensor] : tensors_) {
    if (tensor.integer_bytes != 0 || tensor.type != tensor_type::f8_e4m3) continue;
    if (!quantisation) {
      const auto config = config_if_any(path);
      if (!config) return config.error();
      const auto read = read_fp8_quantisation(*config, (path / "config.json").string());
      if (!read) return read.error();
      if (!*read) return broken(tensor.name, "is F8_E4M3 and needs a quantization_config in config.json");
      quantisation = **read;
    }
    const head_tensor* const scales = scales_of(own, tensor.name);
    if (scales == nullptr)
      return broken(tensor.name, "is F8_E4M3 and needs " + quote(tensor.name + "_scale"));
    if (auto read = scales->read(scales->data); !read) return read;
    auto grid = read_scale_grid(in_file(tensor), in_file(*scales), *quantisation, path_);
    if (!grid) return std::move(grid).error();
    tensor.scales = std::make_shared<const scale_grid>(*std::move(grid));
    for (const auto suffix : fp8_scale_suffixes) claimed.push_back(own + std::string(suffix));
  }
  for (const auto& name : claimed) tensors_.erase(name);
  if (quantisation) std::erase_if(tensors_, [](const auto& one) { return is_unused_fp8_scale(one.first); });
  return {};
}

std::uint64_t head_tensors::num_rows(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() || found->second.num_dims != 2 ? 0 : found->second.shape[0];
}

std::uint64_t head_tensors::num_values(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? 0 : found->second.num_values();
}

bool head_tensors::has_any(std::string_view begin, std::string_view end) const {
  return std::ranges::any_of(
      tensors_, [&](const auto& one) { return one.first.starts_with(begin) && one.first.ends_with(end); });
}

bool head_tensors::ignore_copy(const std::string& name, const std::string& of) {
  const auto copy = tensors_.find(name), beside = tensors_.find(of), other = others_.find(of);
  if (failure_ || copy == tensors_.end() || (beside == tensors_.end() && other == others_.end()))
    return false;
  if (copy->second.scales) return false; // equal codes of FP8 may have different scales
  const auto equal = are_equal(copy->second, beside != tensors_.end() ? beside->second : other->second);
  if (!equal) failure_ = equal.error();
  if (!equal || !*equal) return false;
  tensors_.erase(copy);
  return true;
}

std::uint32_t head_tensors::num_layers() const {
  std::uint32_t count = 0;
  for (;; ++count) {
    const std::string prefix = "layers." + std::to_string(count) + ".";
    const auto first = tensors_.lower_bound(prefix);
    if (first == tensors_.end() || !first->first.starts_with(prefix)) return count;
  }
}

error head_tensors::broken(const std::string& tensor, const std::string& rule) const {
  return error(errc::invalid_file, path_ + ": tensor " + quote(tensor) + " " + rule);
}

void head_tensors::refuse(const std::string& tensor, const std::string& rule) {
  if (!failure_) failure_ = broken(tensor, rule);
}

void head_tensors::refuse_missing(const std::string& name, const std::string& why) {
  refuse(file_name(name), "is missing" + why);
}

std::optional<head_tensor> head_tensors::take(const std::string& name, bool required, std::uint64_t rows,
                                              std::uint64_t cols) {
  if (failure_) return std::nullopt;
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    if (required) refuse_missing(name);
    return std::nullopt;
  }
  head_tensor taken = std::move(found->second);
  tensors_.erase(found);
  if (!has_shape(taken, rows, cols)) {
    const std::string wanted =
        (rows == 1 ? "" : "[" + std::to_string(rows) + "]") + "[" + std::to_string(cols) + "]";
    refuse(taken.name, "must have the shape " + wanted + ", has " + shape_of(taken));
    return std::nullopt;
  }
  if (auto read = taken.read(taken.data); !read) {
    failure_ = std::move(read).error();
    return std::nullopt;
  }
  if (taken.scales) make_blocks(taken, rows, cols);
  return taken;
}

std::optional<head_tensor> head_tensors::take_weights(const std::string& name, bool required,
                                                      std::uint64_t rows, std::uint64_t cols,
                                                      bool may_be_quantised) {
  auto taken = take(name, required, rows, cols);
  if (taken && !has_weights(*taken, may_be_quantised)) return std::nullopt;
  return taken;
}

bool head_tensors::has_weights(const head_tensor& tensor, bool may_be_quantised) {
  const bool is_quantised = !device::is_floating(tensor.type) || tensor.type == tensor_type::f8_e4m3;
  const bool is_plain = !is_quantised;
  if (tensor.integer_bytes == 0 && (is_plain || (is_quantised && may_be_quantised))) return true;
  refuse(tensor.name, "must be F32, F16 or BF16");
  return false;
}

expected<std::unique_ptr<const device::matrix>> head_tensors::packed(const std::string& name,
                                                                     device::tensor_view view) {
  std::vector<std::byte> quantised;
  if (format_ && device::is_floating(view.type) &&
      view.num_cols % device::traits_of(*format_)->block_values == 0) {
    std::vector<float> values(view.num_rows * view.num_cols);
    device::dequantize(view.type, view.bytes, values);
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      return broken(name, "has values that are not finite, so it cannot be quantised");
    quantised = quantise(values, *format_);
    view = {*format_, view.num_rows, view.num_cols, quantised};
  }
  return weights_->pack(name, view);
}

/// Packs `bytes`, which are values of the tensor's type, in the requested format.
std::unique_ptr<const device::matrix> head_tensors::pack(const head_tensor& tensor, std::uint64_t rows,
                                                         std::uint64_t cols,
                                                         std::span<const std::byte> bytes) {
  return keep(packed(tensor.name, {tensor.type, rows, cols, bytes}));
}

std::unique_ptr<const device::matrix> head_tensors::matrix(const std::string& name, std::uint64_t rows,
                                                           std::uint64_t cols,
                                                           std::span<const token_id> chosen) {
  const auto taken = take_weights(name, true, rows, cols, true);
  if (!taken) return nullptr;
  const std::size_t row_bytes = rows == 0 ? 0 : taken->data.size() / rows;
  std::vector<std::byte> bytes;
  for (const token_id row : chosen) {
    const auto from = taken->data.subspan(static_cast<std::size_t>(row.value) * row_bytes, row_bytes);
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  auto packed =
      chosen.empty() ? pack(*taken, rows, cols, taken->data) : pack(*taken, chosen.size(), cols, bytes);
  taken->release(taken->data);
  return packed;
}

void head_tensors::vector(const std::string& name, std::uint64_t size, const float*& to, bool required) {
  const auto taken = take_weights(name, required, 1, size, false);
  if (!taken) return;
  const head_tensor& tensor = *taken;
  std::vector<float> values(size);
  const float offset = name.find("norm") != std::string::npos ? norm_offset_ : 0;
  device::dequantize(tensor.type, tensor.data, values);
  for (float& value : values) value += offset;
  vectors_.push_back({std::move(values), &to});
}

std::vector<float> head_tensors::floats(const std::string& name, std::uint64_t rows, std::uint64_t cols) {
  const auto taken = take_weights(name, true, rows, cols, false);
  if (!taken) return {};
  std::vector<float> values(rows * cols);
  device::dequantize(taken->type, taken->data, values);
  return values;
}

void head_tensors::constant(std::uint64_t size, float value, const float*& to) {
  vectors_.push_back({std::vector<float>(size, value), &to});
}

void head_tensors::gated_queries(const std::string& name, const model_config& config, std::uint64_t cols,
                                 layer_weights& to) {
  const auto taken = take_weights(name, true, std::uint64_t{2} * config.q_size(), cols, true);
  if (!taken) return;
  const head_tensor& tensor = *taken;
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
  if (rows == 0) return refuse(name, "must have rows");
  const auto taken = take_weights(name, true, rows, cols, true);
  if (!taken) return;
  const head_tensor& tensor = *taken;
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
  if (taken->integer_bytes != sizeof(std::int64_t)) {
    refuse(taken->name, "must be I64");
    return {};
  }
  std::vector<std::int64_t> values(size);
  std::memcpy(values.data(), taken->data.data(), size * sizeof(std::int64_t));
  return values;
}

void head_tensors::feed_forward(const std::string& prefix, const model_config& config, layer_weights& to) {
  const std::uint64_t hidden = config.hidden_size, inner = config.ffn_size;
  if (has(prefix + "gate_up_proj.weight")) {
    stacked(prefix + "gate_up_proj.weight", hidden, {{inner, to.ffn_gate}, {inner, to.ffn_up}});
  } else {
    to.ffn_gate = matrix(prefix + "gate_proj.weight", inner, hidden);
    to.ffn_up = matrix(prefix + "up_proj.weight", inner, hidden);
  }
  to.ffn_down = matrix(prefix + "down_proj.weight", hidden, inner);
}

void head_tensors::layer(const std::string& prefix, const model_config& config, std::uint32_t input_size,
                         layer_weights& to, bool is_gated) {
  const std::string attention = prefix + "self_attn.";
  const std::uint32_t hidden = config.hidden_size;
  const std::uint64_t queries = config.q_size(), keys = config.kv_size();
  if (!is_gated && has(attention + "qkv_proj.weight")) {
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
  if (config.num_expert_layers() == 0) feed_forward(prefix + "mlp.", config, to);
  const bool has_biases =
      has(attention + "q_proj.bias") || has(attention + "k_proj.bias") || has(attention + "v_proj.bias");
  vector(attention + "q_proj.bias", config.q_size(), to.q_bias, has_biases);
  vector(attention + "k_proj.bias", config.kv_size(), to.k_bias, has_biases);
  vector(attention + "v_proj.bias", config.kv_size(), to.v_bias, has_biases);
  vector(attention + "o_proj.bias", hidden, to.attention_output_bias, false);
  const bool has_norms = is_gated || has(attention + "q_norm.weight") || has(attention + "k_norm.weight");
  vector(attention + "q_norm.weight", config.head_dim, to.q_norm, has_norms);
  vector(attention + "k_norm.weight", config.head_dim, to.k_norm, has_norms);
  vector(prefix + "input_layernorm.weight", hidden, to.attention_norm, false);
  vector(prefix + "post_attention_layernorm.weight", hidden, to.ffn_norm);
}

expected<void> head_tensors::check_all_taken() {
  if (!failure_ && !tensors_.empty())
    refuse(tensors_.begin()->second.name, "has no meaning in a head of this kind");
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
