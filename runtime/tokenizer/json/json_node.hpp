#pragma once

#include "runtime/base/error.hpp"

#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::tokenizer {

/// A place in a JSON document, present or absent, with its path. Reading an invalid value records the
/// document's first error and returns a default, so a reader can read everything and check for an error once.
class json_node {
 public:
  /// The document's root. `value` and `failure` must outlive all nodes.
  json_node(const boost::json::value& value, std::string path, std::optional<error>& failure)
      : value_(&value), path_(std::move(path)), failure_(&failure) {}

  json_node operator[](std::string_view key) const;
  json_node operator[](std::size_t index) const;
  /// Elements of an array; 0 for anything else.
  std::size_t size() const noexcept;
  /// False when absent or null.
  explicit operator bool() const noexcept { return value_ != nullptr && !value_->is_null(); }
  bool is_string() const noexcept { return value_ != nullptr && value_->is_string(); }
  bool is_array() const noexcept { return value_ != nullptr && value_->is_array(); }

  /// Required values.
  std::string string() const;
  std::uint32_t uint_below(std::uint32_t limit) const;
  double number() const;
  const boost::json::object& object() const;
  void require_array() const;

  /// Optional values.
  std::string string_or(std::string_view fallback) const { return *this ? string() : std::string(fallback); }
  bool flag_or(bool fallback) const;

  /// Member "type", the name of a component's kind.
  std::string type() const { return (*this)["type"].string_or(""); }
  void refuse(std::string_view rule, errc code = errc::invalid_file) const;
  bool failed() const noexcept { return failure_->has_value(); }
  const std::string& path() const noexcept { return path_; }

 private:
  json_node(const boost::json::value* value, std::string path, std::optional<error>* failure)
      : value_(value), path_(std::move(path)), failure_(failure) {}

  const boost::json::value* value_; ///< null: absent
  std::string path_;
  std::optional<error>* failure_;
};

} // namespace paceline::tokenizer
