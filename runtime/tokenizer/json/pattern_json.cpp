#include "runtime/tokenizer/json/pattern_json.hpp"

#include <utility>

namespace paceline::tokenizer {

std::optional<std::variant<regex, std::string>> read_pattern(const json_node& node) {
  using pattern = std::variant<regex, std::string>;
  if (const json_node literal = node["String"]) {
    std::string text = literal.string();
    if (!text.empty()) return pattern(std::move(text));
    literal.refuse("must not be empty");
    return std::nullopt;
  }
  auto compiled = regex::compile(node["Regex"].string());
  if (node.failed()) return std::nullopt;
  if (compiled) return pattern(std::move(*compiled));
  node["Regex"].refuse(compiled.error().message(), compiled.error().code());
  return std::nullopt;
}

} // namespace paceline::tokenizer
