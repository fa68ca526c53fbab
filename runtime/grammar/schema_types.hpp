#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// Sets of JSON types, one bit each. A number without a fraction is an integer.
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

/// nullopt for unknown names.
std::optional<type_set> type_named(std::string_view name) noexcept;
/// The types that the value of "type" names: a name or an array of names.
type_set types_in(const boost::json::value& type);
type_set type_of(const boost::json::value& value) noexcept;
/// The number of values in `value`, itself included, plus one for each 64 bytes of their texts.
std::size_t size_of(const boost::json::value& value);
/// The number as a long double, without rounding.
long double exact_number(const boost::json::value& number);
/// Equality as JSON Schema defines it: 1 equals 1.0, and the order of members does not matter.
bool are_equal(const boost::json::value& a, const boost::json::value& b);
/// A text that two values share exactly if `are_equal` is true for them.
std::string canonical_text(const boost::json::value& value);

} // namespace paceline::grammar
