#include "engine/model_files.hpp"

#include "runtime/tokenizer/json/tokenizer_json.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace paceline {

namespace {

constexpr std::uintmax_t max_tokenizer_bytes = std::uintmax_t{256} << 20;
constexpr std::uintmax_t max_template_bytes = std::uintmax_t{1} << 20;

/// ChatML, which most instruct models understand.
constexpr std::string_view chatml =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

error too_large(const std::filesystem::path& path, const std::string& size, std::uintmax_t max_bytes) {
  return {errc::invalid_file,
          path.string() + ": " + size + " bytes, at most " + std::to_string(max_bytes) + " are read"};
}

expected<std::string> read_text(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  std::error_code failed;
  const bool is_pipe = std::filesystem::is_fifo(path, failed); // such as the pipe of a shell's <(command)
  const auto size = is_pipe ? 0 : std::filesystem::file_size(path, failed);
  if (failed) return error{errc::not_found, path.string() + ": " + failed.message()};
  if (size > max_bytes) return too_large(path, std::to_string(size), max_bytes);
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (std::istreambuf_iterator<char> at(file), end; at != end; ++at) {
    if (text.size() == max_bytes) return too_large(path, "more", max_bytes);
    text += *at;
  }
  if (!file) return error{errc::invalid_file, path.string() + ": cannot be read"};
  return text;
}

/// An empty text is no template. A template that cannot be parsed is an error, because the model's output
/// would be nonsense with another one.
expected<std::optional<tokenizer::chat_template>> parse_template(std::string_view text,
                                                                 const std::string& name) {
  if (text.empty()) return std::optional<tokenizer::chat_template>{};
  tokenizer::template_options options;
  options.name = name;
  auto parsed = tokenizer::chat_template::parse(text, options);
  if (!parsed) return std::move(parsed).error();
  return std::optional(*std::move(parsed));
}

} // namespace

expected<tokenizer::tokenizer> make_tokenizer(const model::hf_tokenizer_settings& files,
                                              std::vector<token_id> eos_ids) {
  const std::string name = files.tokenizer_json.string();
  std::error_code ignored; // a file that does not exist fails to open below, with a reason
  if (std::filesystem::is_fifo(files.tokenizer_json, ignored))
    return error{errc::invalid_file, name + ": is a pipe, not a file"};
  auto text = read_text(files.tokenizer_json, max_tokenizer_bytes);
  if (!text) return std::move(text).error();
  tokenizer::tokenizer_json_settings settings;
  settings.bos = files.bos_token;
  settings.eos = files.eos_token;
  settings.pad = files.pad_token;
  settings.add_bos = files.add_bos;
  settings.add_eos = files.add_eos;
  settings.eos_ids = std::move(eos_ids);
  return tokenizer::read_tokenizer_json(*text, settings, name);
}

expected<tokenizer::tokenizer> make_tokenizer(const model::model_source& source) {
  if (source.vocabulary) {
    auto made = tokenizer::tokenizer::from_vocabulary(*source.vocabulary);
    if (!made) return std::move(made).error().within(source.name);
    return made;
  }
  if (!source.tokenizer || source.tokenizer->tokenizer_json.empty())
    return error{errc::invalid_file, source.name + ": the model has no tokenizer"};
  return make_tokenizer(*source.tokenizer, source.eos_ids);
}

expected<std::optional<tokenizer::chat_template>> configured_chat_template(const std::string& path) {
  if (path.empty()) return std::optional<tokenizer::chat_template>{};
  if (path == chatml_name) return parse_template(chatml, path);
  auto text = read_text(path, max_template_bytes);
  if (!text) return std::move(text).error();
  return parse_template(*text, path);
}

expected<std::optional<tokenizer::chat_template>> chat_template_of(const model::model_source& source,
                                                                   const std::string& path) {
  if (!path.empty() || source.chat_template.empty()) return configured_chat_template(path);
  auto parsed = parse_template(source.chat_template, "chat template"); // clients see this name
  if (!parsed) return std::move(parsed).error().within(source.name);
  return parsed;
}

} // namespace paceline
