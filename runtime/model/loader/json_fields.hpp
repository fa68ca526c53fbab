#pragma once

#include "runtime/base/error.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::model {

/// Reads members of a JSON object one after another and keeps the first error, which names file, key and
/// rule; later reads return defaults, which must not be used. Null counts as absent. Numbers are never
/// converted silently: a fraction, a string or a value out of range is an error.
class json_fields {
 public:
  /// `object` must outlive this. `where` is the file, with the key of the object in it if it is nested.
  json_fields(const boost::json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::optional<error>& failure() const noexcept { return failure_; }
  const std::string& where() const noexcept { return where_; }

  /// Null if the member is absent or null.
  const boost::json::value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_null(std::string_view key) const;

  std::uint32_t uint(std::string_view key);
  std::uint32_t uint_or(std::string_view key, std::uint32_t fallback);
  double number(std::string_view key);
  double number_or(std::string_view key, double fallback);
  bool flag_or(std::string_view key, bool fallback);
  std::string_view string_or(std::string_view key, std::string_view fallback);
  /// Null if absent; an error unless it is an object or an array.
  const boost::json::object* object(std::string_view key);
  const boost::json::array* array(std::string_view key);

  /// Records an error about `key`, unless there is one already.
  void refuse(std::string_view key, std::string_view rule, errc code = errc::invalid_file);
  /// Takes over the error of a reader of a nested object.
  void adopt(const json_fields& nested);

 private:
  const boost::json::value* require(std::string_view key);

  const boost::json::object& object_;
  std::string where_;
  std::optional<error> failure_;
};

} // namespace paceline::model
