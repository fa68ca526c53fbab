#include "runtime/model/loader/model_source.hpp"

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"

#include <system_error>
#include <utility>

namespace paceline::model {

namespace {

expected<model_source> open_gguf(const std::filesystem::path& path) {
  auto file = gguf_file::open(path);
  if (!file) return std::move(file).error();
  auto config = read_gguf_config(*file);
  if (!config) return std::move(config).error();
  auto weights = read_gguf_weights(*file, *config);
  if (!weights) return std::move(weights).error();
  std::optional<tokenizer::vocabulary_data> vocabulary;
  if (file->metadata().find("tokenizer.ggml.model")) {
    auto read = read_gguf_vocabulary(file->metadata());
    if (!read) return std::move(read).error();
    vocabulary = std::move(read).value();
  }
  auto eos_ids = vocabulary ? vocabulary->eos_like : std::vector<token_id>();
  auto chat_template = vocabulary ? vocabulary->chat_template : std::string();
  return model_source{
      path.string(), std::move(config).value(), std::move(weights).value(), std::move(vocabulary),
      std::nullopt,  std::move(eos_ids),        std::move(chat_template),   std::move(file).value()};
}

expected<model_source> open_hugging_face(const std::filesystem::path& path) {
  auto directory = hf_directory::open(path);
  if (!directory) return std::move(directory).error();
  auto weights = read_hf_weights(*directory);
  if (!weights) return std::move(weights).error();
  auto config = directory->config;
  auto tokenizer = directory->tokenizer;
  auto eos_ids = directory->eos_ids;
  auto chat_template = directory->tokenizer.chat_template;
  return model_source{
      path.string(),        std::move(config),  std::move(weights).value(), std::nullopt,
      std::move(tokenizer), std::move(eos_ids), std::move(chat_template),   std::move(directory).value()};
}

} // namespace

expected<model_source> open_model(const std::filesystem::path& path) {
  std::error_code ignored; // a path that cannot be examined fails to open below, with a reason
  return std::filesystem::is_directory(path, ignored) ? open_hugging_face(path) : open_gguf(path);
}

} // namespace paceline::model
