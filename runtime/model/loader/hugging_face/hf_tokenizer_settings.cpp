#include "runtime/model/loader/hugging_face/hf_tokenizer_settings.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"
#include "runtime/model/loader/partial_file.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <utility>

namespace paceline::model {

namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::size_t max_template_bytes = std::size_t{16} << 20;

/// A special token is given by its spelling, or by an object that contains the spelling.
std::optional<std::string> read_special_token(const json_node& fields, std::string_view key) {
  const json_node entry = fields[key];
  if (!entry) return std::nullopt;
  const json_node text = entry.is_object() ? entry["content"] : entry;
  if (text.is_string()) return text.string();
  if (text || text.is_null()) entry.refuse("must be a string or an object with the string 'content'");
  return std::nullopt;
}

std::optional<bool> read_flag(const json_node& fields, std::string_view key) {
  if (!fields[key]) return std::nullopt;
  return fields[key].flag_or(false);
}

/// A template is a string, or a list of {name, template} with one called "default".
std::string read_chat_template(const json_node& fields) {
  const json_node node = fields["chat_template"];
  if (!node) return {};
  if (node.is_string()) return node.string();
  for (std::size_t i = 0; i < node.size(); ++i) {
    const json_node name = node[i]["name"], text = node[i]["template"];
    if (!name.is_string() || !text.is_string()) break;
    if (name.string() == "default") return text.string();
  }
  node.refuse("must be a string, or a list of {name, template} with the name 'default'");
  return {};
}

expected<void> read_tokenizer_config(const fs::path& path, hf_tokenizer_settings& out) {
  auto object = read_json_file(path);
  if (!object) return std::move(object).error();
  std::optional<error> failure;
  const json_node fields(*object, path.string(), failure, json_node::naming::key);
  out.bos_token = read_special_token(fields, "bos_token");
  out.eos_token = read_special_token(fields, "eos_token");
  out.unk_token = read_special_token(fields, "unk_token");
  out.pad_token = read_special_token(fields, "pad_token");
  out.add_bos = read_flag(fields, "add_bos_token");
  out.add_eos = read_flag(fields, "add_eos_token");
  out.chat_template = read_chat_template(fields);
  if (failure) return *failure;
  return {};
}

/// Models that also read images had the template in a file of its own before chat_template.jinja.
expected<void> read_processor_template(const fs::path& path, hf_tokenizer_settings& out) {
  auto object = read_json_file(path);
  if (!object) return std::move(object).error();
  std::optional<error> failure;
  out.chat_template = read_chat_template(json_node(*object, path.string(), failure, json_node::naming::key));
  if (failure) return *failure;
  return {};
}

/// Newer checkpoints have the template in a separate file, which has precedence.
expected<void> read_template_file(const fs::path& path, hf_tokenizer_settings& out) {
  const auto file = partial_file::open(path);
  if (!file) return file.error();
  const auto bytes = (*file)->bytes();
  if (bytes.size() > max_template_bytes)
    return error(errc::invalid_file, path.string() + ": is larger than 16 MiB");
  if (auto read = (*file)->read(bytes); !read) return std::move(read).error();
  out.chat_template.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {};
}

} // namespace

expected<std::vector<token_id>> read_eos_ids(const json::object& object, const std::string& file,
                                             std::uint32_t vocab_size) {
  std::optional<error> failure;
  const json_node listed = json_node(object, file, failure, json_node::naming::key)["eos_token_id"];
  std::vector<token_id> ids;
  const auto add = [&](const json_node& node) {
    if (const auto id = node.if_uint_below(vocab_size))
      ids.push_back(token_id{static_cast<token_id::rep>(*id)});
    else
      listed.refuse("must hold ids of 0 to " + std::to_string(vocab_size - 1));
  };
  for (std::size_t i = 0; i < listed.size(); ++i) add(listed[i]);
  if (listed && !listed.is_array()) add(listed);
  if (failure) return *failure;
  return ids;
}

expected<hf_tokenizer_settings> read_hf_tokenizer_settings(const fs::path& directory) {
  hf_tokenizer_settings out;
  std::error_code ignored; // a file that cannot be examined counts as absent
  const auto exists = [&](const fs::path& path) { return fs::exists(path, ignored); };
  if (const auto path = directory / "tokenizer.json"; exists(path)) out.tokenizer_json = path;
  if (const auto path = directory / "tokenizer_config.json"; exists(path))
    if (auto done = read_tokenizer_config(path, out); !done) return std::move(done).error();
  if (const auto path = directory / "chat_template.jinja"; exists(path)) {
    if (auto done = read_template_file(path, out); !done) return std::move(done).error();
  } else if (const auto older = directory / "chat_template.json";
             out.chat_template.empty() && exists(older)) {
    if (auto done = read_processor_template(older, out); !done) return std::move(done).error();
  }
  return out;
}

} // namespace paceline::model
