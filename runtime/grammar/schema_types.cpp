#include "runtime/grammar/schema_types.hpp"

#include <algorithm>
#include <cmath>

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

bool are_equal(const boost::json::value& a, const boost::json::value& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_double() && !b.is_double()) return a == b;
    return a.to_number<double>() == b.to_number<double>();
  }
  if (a.kind() != b.kind()) return false;
  if (const auto* x = a.if_array()) {
    const auto& y = b.get_array();
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), are_equal);
  }
  if (const auto* x = a.if_object()) {
    const auto& y = b.get_object();
    return x->size() == y.size() && std::all_of(x->begin(), x->end(), [&](const auto& member) {
             const auto* other = y.if_contains(member.key());
             return other != nullptr && are_equal(member.value(), *other);
           });
  }
  return a == b;
}

} // namespace paceline::grammar
