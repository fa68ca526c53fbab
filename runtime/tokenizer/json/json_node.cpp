#include "runtime/tokenizer/json/json_node.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cmath>

namespace paceline::tokenizer {

json_node json_node::operator[](std::string_view key) const {
  const boost::json::value* member = nullptr;
  if (value_ != nullptr && value_->is_object()) member = value_->get_object().if_contains(key);
  return {member, path_ + (path_.ends_with(": ") ? "" : ".") + std::string(key), failure_};
}

json_node json_node::operator[](std::size_t index) const {
  const boost::json::value* element = nullptr;
  if (index < size()) element = &value_->get_array()[index];
  return {element, path_ + "[" + std::to_string(index) + "]", failure_};
}

std::size_t json_node::size() const noexcept { return is_array() ? value_->get_array().size() : 0; }

std::string json_node::string() const {
  if (is_string()) return std::string(value_->get_string());
  refuse("must be a string");
  return {};
}

std::uint32_t json_node::uint_below(std::uint32_t limit) const {
  if (value_ != nullptr && value_->is_int64()) {
    const std::int64_t number = value_->get_int64();
    if (number >= 0 && number < static_cast<std::int64_t>(limit)) return static_cast<std::uint32_t>(number);
  }
  refuse("must be a whole number below " + std::to_string(limit));
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

const boost::json::object& json_node::object() const {
  static const boost::json::object none;
  if (value_ != nullptr && value_->is_object()) return value_->get_object();
  refuse("must be an object");
  return none;
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
  if (!*failure_) *failure_ = error(code, path_ + " " + std::string(rule));
}

} // namespace paceline::tokenizer
