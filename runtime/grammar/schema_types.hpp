#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// A set of JSON types: one bit for each type. As in JSON Schema, a number whose fractional part is zero (1,
/// 1.0 and 1e3) is an integer; any other number has `fraction_type`.
using type_set = std::uint8_t;
inline constexpr type_set null_type = 1;
inline constexpr type_set boolean_type = 2;
inline constexpr type_set integer_type = 4;
inline constexpr type_set fraction_type = 8;
inline constexpr type_set number_types = integer_type | fraction_type;
inline constexpr type_set string_type = 16;
inline constexpr type_set array_type = 32;
inline constexpr type_set object_type = 64;
inline constexpr type_set all_types = 127;

/// The types that one name in the keyword "type" stands for. "number" stands for two. nullopt for unknown
/// names.
std::optional<type_set> type_named(std::string_view name) noexcept;
/// The types that a schema's keyword "type" allows. `type` is the keyword's value, which must be a string or
/// an array of strings. Unknown names are ignored.
type_set types_in(const boost::json::value& type);
/// The type of `value`: exactly one bit.
type_set type_of(const boost::json::value& value) noexcept;
/// The size of `value` as a measure of work: one for `value` itself and one for every value nested in it,
/// plus one for each full 64 bytes of each string and of each member's name.
std::size_t size_of(const boost::json::value& value);
/// The stored number as a long double, without rounding. `number` must be a number.
long double exact_number(const boost::json::value& number);
/// Equality as JSON Schema defines it: 1 equals 1.0, and the order of members does not matter.
bool are_equal(const boost::json::value& a, const boost::json::value& b);
/// A text that identifies a value: two values have the same text if and only if `are_equal` is true for them.
/// Not valid JSON: a comma follows every item of an array and every member of an object.
std::string canonical_text(const boost::json::value& value);

} // namespace paceline::grammar
