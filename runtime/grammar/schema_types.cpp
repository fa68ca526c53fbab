#include "runtime/grammar/schema_types.hpp"

#include <boost/json/serialize.hpp>

#include <cmath>
#include <limits>
#include <map>

namespace paceline::grammar {

std::optional<type_set> type_named(std::string_view name) noexcept {
  if (name == "null") return null_type;
  if (name == "boolean") return boolean_type;
  if (name == "integer") return integer_type;
  if (name == "number") return number_types;
  if (name == "string") return string_type;
  if (name == "array") return array_type;
  if (name == "object") return object_type;
  return std::nullopt;
}

type_set types_in(const boost::json::value& type) {
  if (const auto* name = type.if_string()) return type_named(*name).value_or(0);
  type_set types = 0;
  for (const auto& name : type.get_array()) types |= type_named(name.get_string()).value_or(0);
  return types;
}

type_set type_of(const boost::json::value& value) noexcept {
  switch (value.kind()) {
  case boost::json::kind::null:
    return null_type;
  case boost::json::kind::bool_:
    return boolean_type;
  case boost::json::kind::int64:
  case boost::json::kind::uint64:
    return integer_type;
  case boost::json::kind::double_:
    return std::floor(value.get_double()) == value.get_double() ? integer_type : fraction_type;
  case boost::json::kind::string:
    return string_type;
  case boost::json::kind::array:
    return array_type;
  case boost::json::kind::object:
    return object_type;
  }
  return 0;
}

namespace {

void append_canonical(std::string& out, const boost::json::value& value) {
  if (const auto* array = value.if_array()) {
    out += '[';
    for (const auto& item : *array) append_canonical(out, item), out += ',';
    out += ']';
  } else if (const auto* object = value.if_object()) {
    std::map<std::string_view, const boost::json::value*> members;
    for (const auto& member : *object)
      members.emplace(std::string_view(member.key().data(), member.key().size()), &member.value());
    out += '{';
    for (const auto& [key, inner] : members) {
      out += boost::json::serialize(boost::json::string(key)) + ':';
      append_canonical(out, *inner);
      out += ',';
    }
    out += '}';
  } else if (const auto* number = value.if_double()) {
    // Whole numbers are written with the spellings of 64-bit integers, which JSON writes without a point.
    constexpr double two_to_63 = 9223372036854775808.0;
    const bool is_whole = std::floor(*number) == *number;
    if (is_whole && *number >= -two_to_63 && *number < two_to_63)
      out += std::to_string(static_cast<std::int64_t>(*number));
    else if (is_whole && *number >= two_to_63 && *number < 2 * two_to_63)
      out += std::to_string(static_cast<std::uint64_t>(*number));
    else
      out += boost::json::serialize(value);
  } else {
    out += boost::json::serialize(value);
  }
}

} // namespace

std::size_t size_of(const boost::json::value& value) {
  constexpr std::size_t bytes_per_value = 64;
  std::size_t size = 1;
  if (const auto* text = value.if_string()) size += text->size() / bytes_per_value;
  if (const auto* array = value.if_array())
    for (const auto& item : *array) size += size_of(item);
  if (const auto* object = value.if_object())
    for (const auto& member : *object)
      size += size_of(member.value()) + member.key().size() / bytes_per_value;
  return size;
}

long double exact_number(const boost::json::value& number) {
  static_assert(std::numeric_limits<long double>::digits >= std::numeric_limits<std::uint64_t>::digits);
  if (const auto* value = number.if_int64()) return static_cast<long double>(*value);
  if (const auto* value = number.if_uint64()) return static_cast<long double>(*value);
  return number.get_double();
}

std::string canonical_text(const boost::json::value& value) {
  std::string out;
  append_canonical(out, value);
  return out;
}

bool are_equal(const boost::json::value& a, const boost::json::value& b) {
  return canonical_text(a) == canonical_text(b);
}

} // namespace paceline::grammar
