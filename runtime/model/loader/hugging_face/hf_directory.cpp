#include "runtime/model/loader/hugging_face/hf_directory.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/model/loader/hugging_face/hf_config.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/partial_file.hpp"
#include "runtime/model/loader/text_part.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

/// Tensor names and their file names, from the index.
using weight_map = std::map<std::string, std::string, std::less<>>;

/// File names must not leave the directory.
bool is_plain_file_name(std::string_view name) noexcept {
  return name.ends_with(".safetensors") && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

expected<weight_map> read_index(const fs::path& path) {
  auto object = read_json_file(path);
  if (!object) return std::move(object).error();
  std::optional<error> failure;
  const json_node entries = json_node(*object, path.string(), failure, json_node::naming::key)["weight_map"];
  entries.require_object();
  if (failure) return *failure;
  weight_map map;
  for (const auto& entry : entries.object()) {
    const std::string tensor(entry.key().data(), entry.key().size());
    const auto* file = entry.value().if_string();
    if (!file || !is_plain_file_name({file->data(), file->size()}))
      return error(errc::invalid_file, path.string() + ": tensor " + quote(tensor) +
                                           " must name a .safetensors file of this directory");
    map.emplace(tensor, std::string(file->data(), file->size()));
  }
  if (map.empty()) return error(errc::invalid_file, path.string() + ": weight_map lists no tensor");
  return map;
}

/// Opens the files of an index, and checks that each one contains exactly the tensors that the index lists
/// for it.
expected<std::vector<safetensors_file>> open_shards(const fs::path& directory) {
  auto map = read_index(directory / index_name);
  if (!map) return std::move(map).error();
  std::map<std::string_view, std::size_t> num_listed;
  for (const auto& [tensor, file] : *map) ++num_listed[file];
  std::vector<safetensors_file> shards;
  for (const auto& [file, listed] : num_listed) {
    auto shard = safetensors_file::open(directory / file);
    if (!shard) return std::move(shard).error();
    for (const auto& tensor : shard->tensors()) {
      const auto entry = map->find(tensor.name);
      if (entry == map->end() || entry->second != file)
        return error(errc::invalid_file, shard->name() + ": tensor " + quote(tensor.name) +
                                             " is not listed for this file in " + index_name);
    }
    if (shard->tensors().size() != listed)
      return error(errc::invalid_file, shard->name() + ": has " + std::to_string(shard->tensors().size()) +
                                           " tensors, " + index_name + " lists " + std::to_string(listed));
    shards.push_back(std::move(shard).value());
  }
  return shards;
}

/// The only .safetensors file of a directory, as in directories of draft heads. If there is not exactly one,
/// the usual name.
fs::path only_file(const fs::path& directory) {
  std::error_code failed;
  fs::path found;
  for (const auto& entry : fs::directory_iterator(directory, failed)) {
    if (entry.path().extension() != ".safetensors") continue;
    if (!found.empty()) return single_name;
    found = entry.path().filename();
  }
  return found.empty() ? fs::path(single_name) : found;
}

} // namespace

expected<std::vector<safetensors_file>> open_weight_files(const fs::path& directory) {
  std::error_code ignored; // a file that cannot be examined counts as absent
  if (fs::exists(directory / index_name, ignored)) return open_shards(directory);
  const auto name =
      fs::exists(directory / single_name, ignored) ? fs::path(single_name) : only_file(directory);
  auto single = safetensors_file::open(directory / name);
  if (!single) return std::move(single).error();
  std::vector<safetensors_file> shards;
  shards.push_back(std::move(single).value());
  return shards;
}

namespace {

/// Ids that end a generation: generation_config.json lists more of them than config.json.
expected<std::vector<token_id>> read_all_eos_ids(const fs::path& directory, const json::object& config,
                                                 std::uint32_t vocab_size) {
  std::vector<token_id> ids;
  const auto add = [&](const json::object& object, const fs::path& path) -> expected<void> {
    auto more = read_eos_ids(object, path.string(), vocab_size);
    if (!more) return std::move(more).error();
    ids.insert(ids.end(), more->begin(), more->end());
    return {};
  };
  if (auto added = add(config, directory / "config.json"); !added) return std::move(added).error();
  if (auto added = add(text_members(config), directory / "config.json"); !added)
    return std::move(added).error();
  const auto path = directory / "generation_config.json";
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    auto object = read_json_file(path);
    if (!object) return std::move(object).error();
    if (auto added = add(*object, path); !added) return std::move(added).error();
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// The names of the first few GGUF files in a folder, separated by commas.
std::string gguf_files_in(const fs::path& directory) {
  constexpr std::size_t most = 8;
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator file(directory, failed), end; !failed && file != end; file.increment(failed))
    if (file->path().extension() == ".gguf") names.push_back(file->path().filename().string());
  std::sort(names.begin(), names.end());
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) list += ", and " + std::to_string(names.size() - most) + " more";
  return list;
}

/// Says what a folder without a config.json contains instead; nullopt if that is unknown.
std::optional<error> something_else(const fs::path& directory) {
  std::error_code ignored;
  if (fs::exists(directory / "config.json", ignored)) return std::nullopt;
  if (fs::exists(directory / "adapter_config.json", ignored))
    return error{errc::unsupported, directory.string() + ": is a LoRA adapter, which is not supported"};
  if (const auto names = gguf_files_in(directory); !names.empty())
    return error{errc::not_found,
                 directory.string() + ": has no config.json; name one of its GGUF files: " + names};
  return std::nullopt;
}

/// A tensor, and the file with its bytes.
struct found_tensor {
  const safetensors_tensor* tensor = nullptr;
  std::shared_ptr<const partial_file> from;
};

/// The tensor that is called `name` if the language model is saved alone.
found_tensor find_alone(std::span<const safetensors_file> shards, std::string_view name) {
  for (const auto& shard : shards)
    for (const auto& tensor : shard.tensors())
      if (name_alone(tensor.name) == name) return {&tensor, shard.from()};
  return {};
}

/// True if a head is stored that is no copy of the embedding. It then is the head, whatever the config says,
/// as in transformers: training may have gone on with two matrices.
expected<bool> has_own_head(std::span<const safetensors_file> shards) {
  const auto head = find_alone(shards, "lm_head.weight");
  const auto embedding = find_alone(shards, "model.embed_tokens.weight");
  if (head.tensor == nullptr || embedding.tensor == nullptr) return false;
  const safetensors_tensor &a = *head.tensor, &b = *embedding.tensor;
  if (a.type != b.type || a.integer_bytes != b.integer_bytes || a.num_dims != b.num_dims ||
      a.shape != b.shape)
    return true;
  const auto equal = are_equal(file_bytes{a.data, head.from}, file_bytes{b.data, embedding.from});
  if (!equal) return equal.error();
  return !*equal;
}

} // namespace

expected<hf_directory> hf_directory::open(const fs::path& directory) {
  const auto config_path = directory / "config.json";
  if (auto other = something_else(directory)) return *std::move(other);
  auto object = read_json_file(config_path);
  if (!object) return std::move(object).error();
  auto config = read_hf_config(*object, config_path.string());
  if (!config) return std::move(config).error();
  auto quantisation = read_fp8_quantisation(*object, config_path.string());
  if (!quantisation) return std::move(quantisation).error();
  auto eos_ids = read_all_eos_ids(directory, *object, config->vocab_size);
  if (!eos_ids) return std::move(eos_ids).error();
  auto tokenizer = read_hf_tokenizer_settings(directory);
  if (!tokenizer) return std::move(tokenizer).error();
  auto shards = open_weight_files(directory);
  if (!shards) return std::move(shards).error();
  if (config->tied_embeddings) {
    const auto own_head = has_own_head(*shards);
    if (!own_head) return own_head.error();
    config->tied_embeddings = !*own_head;
  }
  return hf_directory{directory.string(),           std::move(config).value(),  *quantisation,
                      std::move(tokenizer).value(), std::move(eos_ids).value(), std::move(shards).value()};
}

std::uint64_t hf_directory::file_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& shard : shards) bytes += shard.file_bytes();
  return bytes;
}

namespace {

/// Owns what views of tensors refer to. Names are stored in the file objects, which move together with the
/// directory, so the views need their own copies.
struct view_owner {
  std::vector<safetensors_file> shards;
  std::deque<scale_grid> grids;
};

using tensors_by_name = std::map<std::string_view, const safetensors_tensor*>;

/// The tensors of the language model; the others are counted.
tensors_by_name text_tensors(const std::vector<safetensors_file>& shards, skipped_tensors& skipped) {
  tensors_by_name out;
  for (const auto& shard : shards)
    for (const auto& tensor : shard.tensors())
      if (is_beside_text(tensor.name, tensor_naming::hugging_face))
        skipped.add(tensor.name, tensor.data.size());
      else
        out.emplace(tensor.name, &tensor);
  return out;
}

/// The scales of `weight` in any shard; null if there are none.
const safetensors_tensor* scales_of(const tensors_by_name& all, const std::string& weight) {
  for (const auto suffix : fp8_scale_suffixes)
    if (const auto found = all.find(weight + std::string(suffix)); found != all.end()) return found->second;
  return nullptr;
}

/// Reads a tensor's bytes from its shard.
expected<void> read_whole(const view_owner& owner, const safetensors_tensor& tensor) {
  for (const auto& shard : owner.shards)
    if (auto read = shard.from() ? shard.from()->read(tensor.data) : expected<void>(); !read) return read;
  return {};
}

/// Removes the scales of F8_E4M3 matrices from `all` and assigns them to their matrices.
expected<std::map<std::string_view, const scale_grid*>>
claim_scales(const hf_directory& directory, view_owner& owner, tensors_by_name& all) {
  std::map<std::string_view, const scale_grid*> grids;
  for (const auto& shard : owner.shards) {
    for (const auto& tensor : shard.tensors()) {
      if (tensor.type != device::tensor_type::f8_e4m3 || !all.contains(tensor.name)) continue;
      const auto* scales = scales_of(all, tensor.name);
      if (!directory.quantisation || !scales)
        return error(errc::invalid_file,
                     shard.name() + ": tensor " + quote(tensor.name) + " is F8_E4M3 and needs " +
                         (scales ? "a quantization_config in config.json" : quote(tensor.name + "_scale")));
      if (auto read = read_whole(owner, *scales); !read) return std::move(read).error();
      auto grid = read_scale_grid(tensor, *scales, *directory.quantisation, directory.name);
      if (!grid) return std::move(grid).error();
      grids.emplace(tensor.name, &owner.grids.emplace_back(std::move(grid).value()));
      all.erase(scales->name);
    }
  }
  if (directory.quantisation)
    std::erase_if(all, [](const auto& entry) { return is_unused_fp8_scale(entry.first); });
  return grids;
}

/// A vector becomes one row. A tensor with three dimensions is a series of matrices.
expected<weight_view> view_of(const safetensors_tensor& tensor, const scale_grid* scales) {
  if (tensor.num_dims < 1 || tensor.num_dims > 3)
    return error(errc::unsupported, "tensor " + quote(tensor.name) + " must have 1 to 3 dimensions, has " +
                                        std::to_string(tensor.num_dims));
  for (std::uint32_t d = 0; d < tensor.num_dims; ++d)
    if (tensor.shape[d] == 0)
      return error(errc::invalid_file, "tensor " + quote(tensor.name) + " must not be empty");
  const std::uint64_t count = tensor.num_dims == 3 ? tensor.shape[0] : 1;
  const std::uint64_t num_rows = tensor.num_dims == 1 ? 1 : tensor.shape[tensor.num_dims - 2];
  return weight_view{tensor.name,
                     {tensor.type, count * num_rows, tensor.shape[tensor.num_dims - 1], tensor.data},
                     scales,
                     count};
}

} // namespace

expected<weights_source> read_hf_weights(const hf_directory& directory) {
  const auto owner = std::make_shared<view_owner>(view_owner{directory.shards, {}});
  skipped_tensors skipped;
  auto named = text_tensors(owner->shards, skipped);
  const auto grids = claim_scales(directory, *owner, named);
  if (!grids) return grids.error();
  std::vector<weight_view> tensors;
  std::vector<std::shared_ptr<const partial_file>> files;
  for (const auto& shard : owner->shards) {
    files.push_back(shard.from());
    for (const auto& tensor : shard.tensors()) {
      if (!named.contains(tensor.name)) continue;
      if (tensor.integer_bytes != 0)
        return error(errc::unsupported,
                     shard.name() + ": tensor " + quote(tensor.name) + " holds no weights");
      const auto grid = grids->find(tensor.name);
      auto view = view_of(tensor, grid != grids->end() ? grid->second : nullptr);
      if (!view) return std::move(view).error().within(shard.name());
      tensors.push_back(*view);
    }
  }
  return weights_source::make(directory.config, tensors, tensor_naming::hugging_face, owner, directory.name,
                              std::move(files), skipped);
}

} // namespace paceline::model
