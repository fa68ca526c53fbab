#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/schema_document.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// Keywords of this project, for conditions of rewritten schemas that JSON Schema cannot express. A client's
/// schema cannot contain them, because check_keywords refuses names that begin with \x01.
inline constexpr std::string_view types_keyword = "\x01types"; ///< a type_set
/// The values of the other keywords are handles (schema_document::handle_of).
inline constexpr std::string_view here_keyword = "\x01here"; ///< handle of a schema to obey, like "$ref"
/// Handle of a value that is not allowed.
inline constexpr std::string_view not_value_keyword = "\x01not_value";
/// Handle of an array of values that are not allowed.
inline constexpr std::string_view not_in_keyword = "\x01not_in";
/// Handle of a pattern that a text must not match.
inline constexpr std::string_view not_pattern_keyword = "\x01not_pattern";

/// Checks the keywords of one schema, not those of the schemas in it. errc::invalid_argument for a keyword
/// whose value has the wrong form, errc::unsupported for a keyword that is not enforced. Unknown keywords and
/// annotations are ignored.
expected<void> check_keywords(const schema_document& document, schema_ptr schema);

/// True if a keyword limits values: false for annotations and for names that JSON Schema does not define.
bool is_enforced(std::string_view keyword);
/// True if "format" of `schema` limits values. Formats concern only texts, so the result is false if the
/// schema's own "type" excludes texts.
bool has_enforced_format(schema_ptr schema);

/// An enforced format of texts (JSON strings).
struct text_format {
  std::string_view name;
  /// An anchored regular expression. A text of at most 60 characters that matches it has the format. Some
  /// texts that have the format do not match it.
  std::string_view pattern;
  std::string_view rule;    ///< EBNF for texts between quotes, with rules of format_rules()
  std::uint32_t min_length; ///< of the texts that `rule` matches
  std::uint32_t max_length; ///< `unbounded`: any
};
/// The format of that name; nullptr for formats that are not enforced.
const text_format* format_named(std::string_view name);
/// True for a format that JSON Schema does not define, such as OpenAPI's "int64" and "password". It limits no
/// value.
bool is_annotation(std::string_view format);
std::string_view format_rules();
/// EBNF for texts of the format with at most `max_length` characters; "" if there are none. `budgeted` adds a
/// rule for the texts of `rule` with at most `max_characters` characters, and returns its name.
using budget_adder = std::function<std::string(const std::string& rule, std::uint32_t max_characters)>;
std::string limited_format(const text_format& format, std::uint32_t max_length, const budget_adder& budgeted);

} // namespace paceline::grammar
