#pragma once

#include "config/option.hpp"
#include "runtime/base/expected.hpp"

#include <string>
#include <string_view>

namespace paceline::config {

/// Reads the value of `o` from a plain (unquoted) scalar. The error's message is the rule that was broken.
expected<value> parse_scalar(const option& o, std::string_view text);

/// What may be written, for messages and documentation: "an integer from 1 to 256".
std::string allowed_values(const option& o);

/// `v` as a configuration file spells it; texts without quotes. Parsing the spelling gives `v` again.
std::string spell(const option& o, const value& v);

/// `text` as YAML reads it back as a text: in quotes where a plain scalar would be something else.
std::string quote(std::string_view text);

} // namespace paceline::config
