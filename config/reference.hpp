#pragma once

#include <string>

namespace paceline::config {

/// config/README.md: every option with type, default, allowed values and what it does. A test compares.
std::string readme();

/// config/schema.json: the file's JSON Schema, for editors. A test compares.
std::string json_schema();

} // namespace paceline::config
