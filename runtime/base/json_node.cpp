#include "runtime/base/json_node.hpp"

#include "runtime/base/quote.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cmath>
#include <limits>

namespace paceline {

json_node json_node::operator[](std::string_view key) const {
  json_node member = *this;
  member.value_ = object_ != nullptr ? object_->if_contains(key) : nullptr;
  member.object_ = member.value_ != nullptr ? member.value_->if_object() : nullptr;
  member.place_ += name_begin_ == 0 || names_ == naming::key ? ": " : ".";
  if (name_begin_ == 0 || names_ == naming::key) member.name_begin_ = member.place_.size();
  member.place_ += escaped(key); // it may be a key of the file
  return member;
}

json_node json_node::operator[](std::size_t index) const {
  json_node element = *this;
  element.value_ = index < size() ? &value_->get_array()[index] : nullptr;
  element.object_ = element.value_ != nullptr ? element.value_->if_object() : nullptr;
  element.place_ += "[" + std::to_string(index) + "]";
  return element;
}

std::size_t json_node::size() const noexcept { return is_array() ? value_->get_array().size() : 0; }

std::optional<std::uint32_t> json_node::if_uint_below(std::uint64_t limit) const noexcept {
  // The parser stores every number that fits into an int64 as an int64. So it stores every number that is
  // valid here as one.
  const auto* number = value_ != nullptr ? value_->if_int64() : nullptr;
  if (number == nullptr || *number < 0 || static_cast<std::uint64_t>(*number) >= limit) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::string json_node::string() const {
  if (is_string()) return std::string(value_->get_string());
  refuse("must be a string");
  return {};
}

std::uint32_t json_node::uint_below(std::uint32_t limit) const {
  if (const auto number = if_uint_below(limit)) return *number;
  refuse("must be a whole number below " + std::to_string(limit));
  return 0;
}

std::uint32_t json_node::uint() const {
  if (const auto number = if_uint_below(std::uint64_t{1} << 32)) return *number;
  refuse(*this ? "must be an integer of 0 to 4294967295" : "is missing");
  return 0;
}

double json_node::number() const {
  if (value_ != nullptr && value_->is_number()) {
    const double number = value_->to_number<double>();
    if (std::isfinite(number)) return number;
  }
  refuse("must be a finite number");
  return 0;
}

double json_node::setting() const {
  if (value_ != nullptr && value_->is_number()) {
    const double number = value_->to_number<double>();
    if (number >= -1e30 && number <= 1e30) return number;
  }
  refuse(*this ? "must be a number of at most 1e30" : "is missing");
  return 0;
}

const boost::json::object& json_node::object() const {
  static const boost::json::object none;
  require_object();
  return object_ != nullptr ? *object_ : none;
}

void json_node::require_object() const {
  if (!is_object()) refuse(*this ? "must be an object" : "is missing");
}

void json_node::require_array() const {
  if (!is_array()) refuse("must be an array");
}

bool json_node::flag_or(bool fallback) const {
  if (!*this) return fallback;
  if (value_->is_bool()) return value_->get_bool();
  refuse("must be true or false");
  return fallback;
}

void json_node::refuse(std::string_view rule, errc code) const {
  if (*failure_) return;
  std::string text = place_;
  if (name_begin_ != 0 && names_ == naming::key)
    text = place_.substr(0, name_begin_) + "key '" + place_.substr(name_begin_) + "'";
  *failure_ = error(code, text + " " + std::string(rule));
}

} // namespace paceline
