#pragma once

#include "config/node.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::config {

/// Reads one plain YAML document: maps with text keys, lists and scalars. Anchors, aliases, merge keys, tags,
/// duplicate keys, further documents and nesting beyond 32 levels are refused: each adds an error with its
/// place. The root is null if the text is empty.
node read_yaml(std::string_view text, std::string_view file_name, std::vector<std::string>& errors);

} // namespace paceline::config
