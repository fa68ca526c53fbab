#include "runtime/model/loader/hf_tokenizer_settings.hpp"

#include "runtime/model/loader/json_fields.hpp"
#include "runtime/model/loader/json_text.hpp"
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

/// A special token is given by its spelling or as an object that contains it.
std::optional<std::string> read_special_token(json_fields& fields, std::string_view key) {
  const auto* value = fields.find(key);
  if (value && value->is_object()) value = value->get_object().if_contains("content");
  if (!value) return std::nullopt;
  const auto* text = value->if_string();
  if (!text) {
    fields.refuse(key, "must be a string or an object with the string 'content'");
    return std::nullopt;
  }
  return std::string(text->data(), text->size());
}

std::optional<bool> read_flag(json_fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::nullopt;
  return fields.flag_or(key, false);
}

/// A template is a string, or a list of {name, template} with one called "default".
std::string read_chat_template(json_fields& fields) {
  constexpr std::string_view key = "chat_template";
  const auto* value = fields.find(key);
  if (!value) return {};
  if (const auto* text = value->if_string()) return {text->data(), text->size()};
  if (const auto* list = value->if_array()) {
    for (const auto& element : *list) {
      const auto* object = element.if_object();
      const auto* name = object ? object->if_contains("name") : nullptr;
      const auto* text = object ? object->if_contains("template") : nullptr;
      if (!name || !text || !name->is_string() || !text->is_string()) break;
      if (name->get_string() == "default") return {text->get_string().data(), text->get_string().size()};
    }
  }
  fields.refuse(key, "must be a string, or a list of {name, template} with the name 'default'");
  return {};
}

expected<void> read_tokenizer_config(const fs::path& path, hf_tokenizer_settings& out) {
  auto object = read_json_file(path);
  if (!object) return std::move(object).error();
  json_fields fields(*object, path.string());
  out.bos_token = read_special_token(fields, "bos_token");
  out.eos_token = read_special_token(fields, "eos_token");
  out.unk_token = read_special_token(fields, "unk_token");
  out.pad_token = read_special_token(fields, "pad_token");
  out.add_bos = read_flag(fields, "add_bos_token");
  out.add_eos = read_flag(fields, "add_eos_token");
  out.chat_template = read_chat_template(fields);
  if (fields.failure()) return *fields.failure();
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
  constexpr std::string_view key = "eos_token_id";
  json_fields fields(object, file);
  std::vector<token_id> ids;
  const auto add = [&](const json::value& value) {
    const auto* id = value.if_int64();
    if (!id || *id < 0 || *id >= vocab_size)
      fields.refuse(key, "must hold ids of 0 to " + std::to_string(vocab_size - 1));
    else
      ids.push_back(token_id{static_cast<token_id::rep>(*id)});
  };
  if (const auto* value = fields.find(key)) {
    if (const auto* list = value->if_array())
      for (const auto& element : *list) add(element);
    else
      add(*value);
  }
  if (fields.failure()) return *fields.failure();
  return ids;
}

expected<hf_tokenizer_settings> read_hf_tokenizer_settings(const fs::path& directory) {
  hf_tokenizer_settings out;
  std::error_code ignored; // a file that cannot be examined counts as absent
  const auto exists = [&](const fs::path& path) { return fs::exists(path, ignored); };
  if (const auto path = directory / "tokenizer.json"; exists(path)) out.tokenizer_json = path;
  if (const auto path = directory / "tokenizer_config.json"; exists(path))
    if (auto done = read_tokenizer_config(path, out); !done) return std::move(done).error();
  if (const auto path = directory / "chat_template.jinja"; exists(path))
    if (auto done = read_template_file(path, out); !done) return std::move(done).error();
  return out;
}

} // namespace paceline::model
