#pragma once

#include "runtime/base/json_node.hpp"
#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include <optional>
#include <string>
#include <variant>

namespace paceline::tokenizer {

/// Reads {"String": literal} or {"Regex": pattern}, the patterns of tokenizer.json. nullopt after an error.
std::optional<std::variant<regex, std::string>> read_pattern(const json_node& node);

} // namespace paceline::tokenizer
