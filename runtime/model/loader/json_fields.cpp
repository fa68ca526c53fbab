#include "runtime/model/loader/json_fields.hpp"

#include "runtime/model/loader/quote.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <limits>

namespace paceline::model {

namespace json = boost::json;

const json::value* json_fields::find(std::string_view key) const {
  const auto* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value && value->is_null() ? nullptr : value;
}

bool json_fields::is_null(std::string_view key) const {
  const auto* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value && value->is_null();
}

const json::value* json_fields::require(std::string_view key) {
  const auto* value = find(key);
  if (!value) refuse(key, "is missing");
  return value;
}

std::uint32_t json_fields::uint(std::string_view key) { return require(key) ? uint_or(key, 0) : 0; }

std::uint32_t json_fields::uint_or(std::string_view key, std::uint32_t fallback) {
  const auto* value = find(key);
  if (!value) return fallback;
  // The parser stores every number that fits into an int64 as such, and so every valid one.
  const auto* number = value->if_int64();
  if (!number || *number < 0 || *number > std::numeric_limits<std::uint32_t>::max())
    return refuse(key, "must be an integer of 0 to 4294967295"), fallback;
  return static_cast<std::uint32_t>(*number);
}

double json_fields::number(std::string_view key) { return require(key) ? number_or(key, 0) : 0; }

double json_fields::number_or(std::string_view key, double fallback) {
  const auto* value = find(key);
  if (!value) return fallback;
  if (const auto* number = value->if_double()) {
    if (*number >= -1e30 && *number <= 1e30) return *number;
  } else if (const auto* integer = value->if_int64()) {
    return static_cast<double>(*integer);
  }
  return refuse(key, "must be a number of at most 1e30"), fallback;
}

bool json_fields::flag_or(std::string_view key, bool fallback) {
  const auto* value = find(key);
  if (!value) return fallback;
  if (!value->is_bool()) return refuse(key, "must be true or false"), fallback;
  return value->get_bool();
}

std::string_view json_fields::string_or(std::string_view key, std::string_view fallback) {
  const auto* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) return refuse(key, "must be a string"), fallback;
  return {value->get_string().data(), value->get_string().size()};
}

const json::object* json_fields::object(std::string_view key) {
  const auto* value = find(key);
  if (!value) return nullptr;
  if (!value->is_object()) refuse(key, "must be an object");
  return value->if_object();
}

const json::array* json_fields::array(std::string_view key) {
  const auto* value = find(key);
  if (!value) return nullptr;
  if (!value->is_array()) refuse(key, "must be an array");
  return value->if_array();
}

void json_fields::refuse(std::string_view key, std::string_view rule, errc code) {
  if (!failure_) failure_ = error(code, where_ + ": key " + quote(key) + " " + std::string(rule));
}

void json_fields::adopt(const json_fields& nested) {
  if (!failure_) failure_ = nested.failure_;
}

} // namespace paceline::model
