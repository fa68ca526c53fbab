// Encodes or decodes line by line, for tests that compare with other programs.
//   tokenize_lines VOCABULARY [--no-special] [--plain] [--decode]
// VOCABULARY is a GGUF file or a tokenizer.json. Lines in: JSON strings (with --decode: arrays of ids). Lines
// out: arrays of ids (JSON strings).
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/tokenizer/json/tokenizer_json.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace paceline {
namespace {

expected<tokenizer::tokenizer> open(const std::string& path) {
  if (path.ends_with(".json")) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return tokenizer::read_tokenizer_json(text.str(), {}, path);
  }
  auto file = model::gguf_file::open(path);
  if (!file) return std::move(file).error();
  auto vocabulary = model::read_gguf_vocabulary(file->metadata());
  if (!vocabulary) return std::move(vocabulary).error();
  return tokenizer::tokenizer::from_vocabulary(std::move(*vocabulary));
}

boost::json::value encode(const tokenizer::tokenizer& t, const boost::json::value& line,
                          tokenizer::encode_options how) {
  const auto& text = line.as_string();
  const auto tokens = t.encode({text.data(), text.size()}, how);
  if (!tokens) return {{"error", tokens.error().message()}};
  boost::json::array ids;
  for (const token_id token : *tokens) ids.push_back(token.value);
  return ids;
}

boost::json::value decode(const tokenizer::tokenizer& t, const boost::json::value& line) {
  std::vector<token_id> tokens;
  for (const auto& id : line.as_array()) tokens.emplace_back(id.to_number<std::int32_t>());
  return boost::json::string(t.decode(tokens));
}

} // namespace
} // namespace paceline

int main(int argc, char** argv) {
  using namespace paceline;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return 2;
  const auto has = [&](const char* option) {
    return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
  };
  const auto vocabulary = open(arguments[0]);
  if (!vocabulary) {
    std::cerr << vocabulary.error().message() << '\n';
    return 1;
  }
  const tokenizer::encode_options how{.add_special = !has("--no-special"), .parse_special = !has("--plain")};
  for (std::string line; std::getline(std::cin, line);) {
    const auto value = boost::json::parse(line);
    std::cout << (has("--decode") ? decode(*vocabulary, value) : encode(*vocabulary, value, how)) << '\n';
  }
}
