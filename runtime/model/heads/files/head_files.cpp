#include "runtime/model/heads/files/head_files.hpp"

#include "runtime/model/loader/hugging_face/hf_directory.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/weights/tensor_role.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
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

/// The tensors of a head that are called like those of a model.
constexpr tensor_role layer_roles[] = {
    tensor_role::attention_norm,
    tensor_role::q,
    tensor_role::k,
    tensor_role::v,
    tensor_role::attention_output,
    tensor_role::q_norm,
    tensor_role::k_norm,
    tensor_role::ffn_norm,
    tensor_role::ffn_gate,
    tensor_role::ffn_up,
    tensor_role::ffn_down,
    tensor_role::ffn_router,
    tensor_role::ffn_shared_scale,
    tensor_role::ffn_gate_shared,
    tensor_role::ffn_up_shared,
    tensor_role::ffn_down_shared,
};
constexpr tensor_role end_roles[] = {tensor_role::token_embedding, tensor_role::output_norm,
                                     tensor_role::output};

/// A tensor's names without what follows the last dot: "attn_q" and "self_attn.q_proj".
struct name_pair {
  std::string_view gguf;
  std::string_view hugging_face;
};

/// The names of a role in a model of the Llama family, without the part "model." that heads have not.
name_pair names_of(tensor_role role) {
  static const model_config plain{};
  const auto stem = [&](tensor_naming naming) {
    std::string_view name = tensor_name(role, naming, plain);
    if (constexpr std::string_view of_model = "model."; name.starts_with(of_model))
      name.remove_prefix(of_model.size());
    return name.substr(0, name.rfind('.'));
  };
  return {stem(tensor_naming::gguf), stem(tensor_naming::hugging_face)};
}

std::vector<name_pair> names_in_layers() {
  std::vector<name_pair> names{{"attn_norm_2", "hidden_norm"}}; // EAGLE's, of the target's hidden states
  std::ranges::transform(layer_roles, std::back_inserter(names), names_of);
  return names;
}

/// Those of a layer's tensors, without the part "blk.N.", or those of the others.
const std::vector<name_pair>& names_in(bool is_of_layer) {
  static const std::vector<name_pair> of_layers = names_in_layers();
  static const std::vector<name_pair> others{names_of(end_roles[0]), names_of(end_roles[1]),
                                             names_of(end_roles[2])};
  return is_of_layer ? of_layers : others;
}

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
  const auto& names = names_in(is_of_layer);
  const auto found = std::ranges::find(names, part, &name_pair::gguf);
  if (found == names.end()) return std::string(in_gguf);
  return prefix + std::string(found->hugging_face) + std::string(in_gguf.substr(dot));
}

std::string name_in_gguf(std::string_view in_directories) {
  constexpr std::string_view layers = "layers.";
  const std::size_t dot = in_directories.rfind('.');
  const bool is_of_layer = in_directories.starts_with(layers);
  const std::size_t begin = is_of_layer ? in_directories.find('.', layers.size()) + 1 : 0;
  if (dot == std::string_view::npos || dot < begin) return std::string(in_directories);
  const std::string_view part = in_directories.substr(begin, dot - begin);
  const std::string number(is_of_layer ? in_directories.substr(layers.size(), begin - layers.size()) : "");
  const auto& names = names_in(is_of_layer);
  const auto found = std::ranges::find(names, part, &name_pair::hugging_face);
  if (found == names.end()) return std::string(in_directories);
  return (is_of_layer ? "blk." : "") + number + std::string(found->gguf) +
         std::string(in_directories.substr(dot));
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
