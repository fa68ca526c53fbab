#pragma once

#include "runtime/base/error.hpp"

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// A place in a JSON document, with its path. The place may be absent; a null counts as absent. If a value
/// breaks the rule of a read function, the function returns a default and records an error, unless the
/// document already has one. So a reader can read everything and check for an error once, at the end.
/// Functions that read an integer refuse fractions, strings and values out of range.
class json_node {
 public:
  /// How errors name a place of "f.json": "f.json: model.vocab[3]" or "f.json: rope_scaling: key 'factor'".
  enum class naming : std::uint8_t { path, key };

  /// The document's root. Errors call the document `file`. `value` and `failure` must outlive all nodes.
  json_node(const boost::json::value& value, std::string file, std::optional<error>& failure,
            naming names = naming::path)
      : json_node(&value, value.if_object(), std::move(file), failure, names) {}
  json_node(const boost::json::object& object, std::string file, std::optional<error>& failure,
            naming names = naming::path)
      : json_node(nullptr, &object, std::move(file), failure, names) {}

  /// A member or an element. It is absent if this node has none of that name or index; that is no error.
  json_node operator[](std::string_view key) const;
  json_node operator[](std::size_t index) const;
  /// Elements of an array; 0 for anything else.
  std::size_t size() const noexcept;
  /// False when absent or null.
  explicit operator bool() const noexcept { return object_ != nullptr || (value_ != nullptr && !is_null()); }
  bool is_null() const noexcept { return value_ != nullptr && value_->is_null(); }
  bool is_string() const noexcept { return value_ != nullptr && value_->is_string(); }
  bool is_array() const noexcept { return value_ != nullptr && value_->is_array(); }
  bool is_object() const noexcept { return object_ != nullptr; }
  bool has_members() const noexcept { return object_ != nullptr && !object_->empty(); }
  bool is_true() const noexcept { return value_ != nullptr && value_->is_bool() && value_->get_bool(); }
  /// The value if it is a whole number in [0, limit). `limit` is at most 2^32.
  std::optional<std::uint32_t> if_uint_below(std::uint64_t limit) const noexcept;

  // Required values. The defaults are an empty string, 0 and an empty object.
  std::string string() const;
  std::uint32_t uint_below(std::uint32_t limit) const;
  std::uint32_t uint() const; ///< any whole number that fits 32 bits
  double number() const;      ///< any finite number
  double setting() const;     ///< a number of at most 1e30 in magnitude, so that it fits float32
  const boost::json::object& object() const;
  void require_object() const;
  void require_array() const;

  // Optional values. A value that is present must obey the same rule as a required one.
  std::string string_or(std::string_view fallback) const { return *this ? string() : std::string(fallback); }
  bool flag_or(bool fallback) const;
  std::uint32_t uint_or(std::uint32_t fallback) const { return *this ? uint() : fallback; }
  double setting_or(double fallback) const { return *this ? setting() : fallback; }

  /// Member "type", which names the kind of a tokenizer's component; empty if absent.
  std::string type() const { return (*this)["type"].string_or(""); }
  /// Records that this place breaks `rule`, unless there is an error already.
  void refuse(std::string_view rule, errc code = errc::invalid_file) const;
  bool failed() const noexcept { return failure_->has_value(); }

 private:
  json_node(const boost::json::value* value, const boost::json::object* object, std::string file,
            std::optional<error>& failure, naming names)
      : value_(value), object_(object), place_(std::move(file)), failure_(&failure), names_(names) {}

  const boost::json::value* value_;   ///< nullptr: absent, or the root of a document that is an object
  const boost::json::object* object_; ///< the object at this place; nullptr: the place has none
  std::string place_;                 ///< file and path
  std::size_t name_begin_ = 0; ///< offset in `place_` of the part that `naming::key` quotes; 0: the root
  std::optional<error>* failure_;
  naming names_;
};

} // namespace paceline
