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

} // namespace

expected<tokenizer::tokenizer> make_tokenizer(const model::hf_tokenizer_settings& files,
                                              std::vector<token_id> eos_ids) {
  if (files.tokenizer_json.empty()) return error{errc::invalid_file, "the model has no tokenizer"};
  auto text = read_text(files.tokenizer_json, max_tokenizer_bytes);
  if (!text) return std::move(text).error();
  tokenizer::tokenizer_json_settings settings;
  settings.bos = files.bos_token;
  settings.eos = files.eos_token;
  settings.pad = files.pad_token;
  settings.add_bos = files.add_bos;
  settings.add_eos = files.add_eos;
  settings.eos_ids = std::move(eos_ids);
  return tokenizer::read_tokenizer_json(*text, settings, files.tokenizer_json.string());
}

expected<tokenizer::tokenizer> make_tokenizer(const model::model_source& source) {
  if (source.vocabulary) return tokenizer::tokenizer::from_vocabulary(*source.vocabulary);
  return make_tokenizer(source.tokenizer.value_or(model::hf_tokenizer_settings{}), source.eos_ids);
}

expected<std::optional<tokenizer::chat_template>> make_chat_template(const std::string& own,
                                                                     const std::string& path) {
  std::string text = own;
  tokenizer::template_options options;
  if (path == chatml_name) {
    text = chatml;
    options.name = path;
  } else if (!path.empty()) {
    auto read = read_text(path, max_template_bytes);
    if (!read) return std::move(read).error();
    text = *std::move(read);
    options.name = path;
  }
  if (text.empty()) return std::optional<tokenizer::chat_template>{};
  auto parsed = tokenizer::chat_template::parse(text, options);
  // No other template is used instead, because the model's output would be nonsense.
  if (!parsed) return std::move(parsed).error();
  return std::optional(*std::move(parsed));
}

} // namespace paceline
