#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/grammar/schema_document.hpp"

#include <optional>
#include <string_view>

namespace paceline::grammar {

/// Keywords of our own, for what a rewritten schema says and JSON Schema has no word for. A client's schema
/// cannot contain them, because check_keywords refuses names that begin with this character.
inline constexpr std::string_view types_keyword = "\x01types";   ///< a type_set
inline constexpr std::string_view not_in_keyword = "\x01not_in"; ///< an array of values that are not allowed

/// Checks the keywords of one schema, not those of the schemas in it: errc::invalid_argument for a value of
/// the wrong form, errc::unsupported for what is not enforced. Unknown keywords and annotations are ignored.
expected<void> check_keywords(const schema_document& document, schema_ptr schema);

/// An anchored regular expression of a format's texts; nullopt for formats that are not enforced.
std::optional<std::string_view> format_pattern(std::string_view format);

} // namespace paceline::grammar
