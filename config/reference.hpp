#pragma once

#include <string>

namespace paceline::config {

/// The text of config/README.md: every option with type, default, allowed values and description. A test
/// compares it with the file.
std::string readme();

/// The text of config/schema.json, the configuration's JSON Schema for editors. A test compares it with the
/// file.
std::string json_schema();

} // namespace paceline::config
