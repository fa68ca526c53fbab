#pragma once

#include "config/load.hpp"
#include "config/node.hpp"
#include "runtime/base/expected.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::config {

/// Replaces environment variables in a scalar: `${NAME}` (must be set), `${NAME:-text}` (text if unset or
/// empty), `${NAME:?message}` (an error with that message if unset or empty), `$$` for a dollar sign. Values
/// are not expanded again and must not contain a line break.
expected<std::string> expand(std::string_view text, const environment& variables);

/// Expands every scalar below `root`.
void expand_all(node& root, std::string_view file_name, const environment& variables,
                std::vector<std::string>& errors);

} // namespace paceline::config
