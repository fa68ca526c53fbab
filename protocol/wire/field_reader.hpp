#pragma once

#include "protocol/wire/api_error.hpp"
#include "protocol/wire/fields/field_spec.hpp"
#include "protocol/wire/json_view.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

/// Limits for a JSON text.
struct json_limits {
  std::size_t max_bytes = 8U << 20U;
  std::size_t max_depth = 32;
};

/// Checks that `text` is one JSON object within `limits`. Builds no tree of values: the returned view reads
/// `text`, which must outlive it. If a key is repeated, its last value is used.
parsed<json_view> parse_object(std::string_view text, const json_limits& limits = {});
/// How the error message of `parse_object` begins if the text nests deeper than `max_depth`.
inline constexpr std::string_view nests_too_deep = "the JSON text nests deeper than ";

/// The type of a JSON value, for error messages: "a string", "an object", "a number with a fraction".
std::string_view kind_of(json_view value);

/// The name of an element of a list: "messages[2]".
inline std::string indexed(std::string_view name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

/// Reads the fields of one JSON object into typed variables. An integer field accepts only JSON integers
/// inside its range. Null counts as absent. The first failure is kept, so a parser can read all fields and
/// check for a failure once at the end. `ignored` lists the fields that were not read.
///
/// A body may have a million members. The constructor reads the text once and keeps the members whose name is
/// in the field table, the last one of each name. So the time to read such a field does not depend on the
/// number of members. A field whose name is not in the table is searched in the text at each call.
class field_reader {
 public:
  /// `path` prefixes field names in messages ("messages[2]"); empty at the top level. `fields` must be an
  /// object.
  field_reader(json_view fields, std::string path);

  // These functions read a field of the table (`spec` in fields/field_table.hpp), with the bounds of its row.
  // They return true if the field is present and was read; otherwise `out` is unchanged.
  bool boolean(const field_spec& row, bool& out) { return boolean(row.name, out); }
  bool number(const field_spec& row, float& out) { return number(row.name, out, row.range); }
  bool text(const field_spec& row, std::string& out) {
    return text(row.name, out, static_cast<std::size_t>(row.least), static_cast<std::size_t>(row.most));
  }
  template <class Int>
  bool integer(const field_spec& row, Int& out) {
    return integer(row.name, out, row.least, row.most);
  }
  std::optional<std::size_t> choice(const field_spec& row) { return choice(row.name, row.choices); }
  std::optional<json_elements> array(const field_spec& row) {
    return array(row.name, static_cast<std::size_t>(row.least), static_cast<std::size_t>(row.most));
  }
  std::optional<json_view> find(const field_spec& row) { return find(row.name); }
  std::optional<json_view> object(const field_spec& row) { return object(row.name); }
  /// Marks a field that has no effect: neither refused nor reported as ignored.
  void accept(const field_spec& row) { mark_as_read(row.name); }
  /// Fails if the field is present and its value is neither null nor one of the row's neutral values.
  void refuse(const field_spec& row);
  /// Checks fields that were not read because they belong to another role or type of the object. `path` is
  /// the object's path in the table; only fields that the table has for requests of `kind` are checked.
  /// Refused fields fail (`refuse`). Booleans, integers and strings are checked for type and bounds, objects
  /// and lists of objects only for type and number of elements; other fields are not checked.
  void check_unread(std::string_view path, request_kinds kind);

  // The same with bounds given by the caller.
  bool boolean(std::string_view name, bool& out);
  bool number(std::string_view name, float& out, float_range range);
  bool text(std::string_view name, std::string& out, std::size_t min_bytes, std::size_t max_bytes);
  template <std::integral Int>
  bool integer(std::string_view name, Int& out, std::int64_t min, std::int64_t max) {
    const auto field = find(name);
    const auto read = field ? to_integer(*field, name, min, max) : std::nullopt;
    if (read) out = static_cast<Int>(*read);
    return read.has_value();
  }
  template <std::integral Int>
  bool integer(std::string_view name, std::optional<Int>& out, std::int64_t min, std::int64_t max) {
    Int value{};
    if (!integer(name, value, min, max)) return false;
    out = value;
    return true;
  }
  /// Index in `allowed` of the field's value, a string.
  std::optional<std::size_t> choice(std::string_view name, std::span<const std::string_view> allowed);

  /// The field's value if present and not null. Marks it as read.
  std::optional<json_view> find(std::string_view name);
  std::optional<json_view> object(std::string_view name);
  std::optional<json_elements> array(std::string_view name, std::size_t min_size, std::size_t max_size);

  /// Calls `read(reader)` with a reader of each object in the list `name`. Stops with a failure at the first
  /// element that is not an object or whose reader failed.
  template <class Read>
  void for_each_object(std::string_view name, json_elements elements, Read read) {
    std::size_t i = 0;
    for (const auto element : elements) {
      const auto place = indexed(name, i++);
      if (!element.is_object()) return fail(place, "must be an object, not " + std::string(kind_of(element)));
      field_reader reader(element, path_of(place));
      read(reader);
      if (reader.failure()) return fail(*reader.failure());
    }
  }

  /// Fails if the field, which is known but not supported, is present and not null.
  void refuse(std::string_view name, std::string_view why);

  /// `value` as a number; nullopt and a failure that names the field `name` if it has another type or is not
  /// in the range.
  std::optional<std::int64_t> to_integer(json_view value, std::string_view name, std::int64_t min,
                                         std::int64_t max);
  std::optional<float> to_number(json_view value, std::string_view name, float_range range);
  /// Fails with "`path.name`: `rule`". The first failure is kept.
  void fail(std::string_view name, std::string_view rule);
  void fail(api_error failure);
  std::string path_of(std::string_view name) const;

  const std::optional<api_error>& failure() const noexcept { return failure_; }
  /// To be called after `inner` has read an object inside this one. Takes over the failure of `inner` or, if
  /// there is none, the fields that `inner` did not read.
  void adopt(const field_reader& inner);
  /// Paths of the fields that were not read: the first `max_ignored`, with long names truncated.
  std::vector<std::string> ignored() const;
  static constexpr std::size_t max_ignored = 32;

 private:
  /// A member whose name is in the field table.
  struct member {
    int name; ///< index of the name (`index_of_name`)
    json_view value;
    bool is_read = false;
  };

  void mark_as_read(std::string_view name);
  void check(const field_spec& row);
  member* member_named(int index);

  json_view fields_;
  std::vector<member> members_;      ///< at most one for each name
  std::vector<std::uint8_t> places_; ///< by index of the name: position in `members_`, plus 1; 0: absent
  std::string path_;
  std::vector<std::string_view> read_;      ///< names, not in the table, that were read
  std::vector<std::string> ignored_inside_; ///< paths of ignored fields of adopted readers
  std::optional<api_error> failure_;
};

} // namespace paceline::wire
