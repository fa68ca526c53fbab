#pragma once

#include "config/node.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::config {

/// Reads one YAML document of the plain kind: maps with text keys, lists and scalars. Anchors, aliases, merge
/// keys, tags, duplicate keys, further documents and nesting beyond 32 levels are refused: each adds an error
/// naming its place. The root is null if there is nothing in the text.
node read_yaml(std::string_view text, std::string_view file_name, std::vector<std::string>& errors);

} // namespace paceline::config
