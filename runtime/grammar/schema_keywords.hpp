#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/schema_document.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// Keywords of our own, for what a rewritten schema says and JSON Schema has no word for. A client's schema
/// cannot contain them, because check_keywords refuses names that begin with this character.
inline constexpr std::string_view types_keyword = "\x01types"; ///< a type_set
/// The others hold handles (schema_document::handle_of).
inline constexpr std::string_view here_keyword = "\x01here";               ///< of a schema, as "$ref"
inline constexpr std::string_view not_value_keyword = "\x01not_value";     ///< of a value that is not allowed
inline constexpr std::string_view not_in_keyword = "\x01not_in";           ///< of an array of such values
inline constexpr std::string_view not_pattern_keyword = "\x01not_pattern"; ///< of a pattern: text without it

/// Checks the keywords of one schema, not those of the schemas in it: errc::invalid_argument for a value of
/// the wrong form, errc::unsupported for what is not enforced. Unknown keywords and annotations are ignored.
expected<void> check_keywords(const schema_document& document, schema_ptr schema);

/// Whether a keyword limits values: annotations and names that JSON Schema does not know do not.
bool is_enforced(std::string_view keyword);

/// A format of texts that is enforced.
struct text_format {
  std::string_view name;
  std::string_view pattern; ///< anchored; of texts of at most 60 characters it leaves some of the format out
  std::string_view rule;    ///< EBNF for texts between quotes, with rules of format_rules()
  std::uint32_t min_length; ///< of the texts that `rule` matches
  std::uint32_t max_length; ///< `unbounded`: any
};
/// nullptr for formats that are not enforced.
const text_format* format_named(std::string_view name);
std::string_view format_rules();
/// EBNF for texts of the format that have at most so many characters; "" if there is none. `budgeted` adds a
/// rule that ends another one after a number of characters.
using budget_adder = std::function<std::string(const std::string& rule, std::uint32_t max_characters)>;
std::string limited_format(const text_format& format, std::uint32_t max_length, const budget_adder& budgeted);

} // namespace paceline::grammar
