#pragma once

#include "config/option.hpp"
#include "runtime/base/expected.hpp"

#include <string>
#include <string_view>

namespace paceline::config {

/// Parses the value of `o` from a plain (unquoted) scalar. The error's message is the violated rule.
expected<value> parse_scalar(const option& o, std::string_view text);

/// The allowed values, for messages and documentation: "an integer from 1 to 256".
std::string allowed_values(const option& o);

/// `v` as spelled in a configuration file; texts without quotes. Parsing this gives `v` again.
std::string spell(const option& o, const value& v);

/// `text` as a YAML text: quoted if a plain scalar would be read as something else.
std::string quote(std::string_view text);

} // namespace paceline::config
