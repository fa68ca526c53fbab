#pragma once

#include "runtime/base/json_node.hpp"
#include "runtime/tokenizer/pre_tokenizers/regex.hpp"

#include <optional>
#include <string>
#include <variant>

namespace paceline::tokenizer {

/// {"String": literal} or {"Regex": pattern}, as tokenizer.json writes what to look for. None: an error is
/// recorded.
std::optional<std::variant<regex, std::string>> read_pattern(const json_node& node);

} // namespace paceline::tokenizer
