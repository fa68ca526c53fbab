#pragma once

#include "protocol/wire/api_error.hpp"
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

/// Checks that `text` is one JSON object. Refuses text beyond a limit, malformed text, and a top level other
/// than an object. Builds no tree of values: the view reads the text, which must outlive it. Of a repeated
/// key the last value wins.
parsed<json_view> parse_object(std::string_view text, const json_limits& limits = {});

/// Range of a floating-point field, checked after the conversion to float.
struct float_range {
  float min = 0;
  float max = 0;
  bool min_excluded = false;
};

/// Reads the fields of one JSON object into typed variables. No number is converted with loss: an integer
/// field accepts only JSON integers inside its range. Null counts as absent. The first failure is kept and
/// later reads do nothing, so a parser can read all fields and check once. `ignored` lists the fields that
/// were not read. Costs 16 bytes for each member of the object.
class field_reader {
 public:
  /// `path` prefixes field names in messages ("messages[2]"); empty at the top level. `fields` must be an
  /// object.
  field_reader(json_view fields, std::string path);

  /// True if the field is present and was read; otherwise `out` is unchanged.
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
  /// [0, 2^64).
  bool unsigned64(std::string_view name, std::optional<std::uint64_t>& out);
  /// Index of the field's text in `allowed`.
  std::optional<std::size_t> choice(std::string_view name, const std::vector<std::string_view>& allowed);

  /// The field's value if present and not null. Marks it as read.
  std::optional<json_view> find(std::string_view name);
  std::optional<json_view> object(std::string_view name);
  std::optional<json_elements> array(std::string_view name, std::size_t min_size, std::size_t max_size);

  /// Marks fields that are known and have no effect by design: neither refused nor reported as ignored.
  void accept(std::initializer_list<std::string_view> names);
  /// Fails if the field, which is known but not supported, is present and not null.
  void refuse(std::string_view name, std::string_view why);

  std::optional<std::int64_t> to_integer(json_view value, std::string_view name, std::int64_t min,
                                         std::int64_t max);
  std::optional<float> to_number(json_view value, std::string_view name, float_range range);
  /// Fails with "`path.name`: `rule`". The first failure is kept.
  void fail(std::string_view name, std::string_view rule);
  void fail(api_error failure);
  std::string path_of(std::string_view name) const;

  const std::optional<api_error>& failure() const noexcept { return failure_; }
  /// Names of unread fields, with path: the first `max_ignored`, long names truncated.
  std::vector<std::string> ignored() const;
  static constexpr std::size_t max_ignored = 32;

 private:
  /// Position of a member in the text of its object.
  struct member {
    std::uint32_t name_begin, name_size, value_begin, value_size;
  };

  std::string_view name_of(const member& entry) const {
    return text_.substr(entry.name_begin, entry.name_size);
  }

  std::string_view text_;
  std::vector<member> members_; ///< in order
  std::string path_;
  std::vector<std::string_view> read_;
  std::optional<api_error> failure_;
};

/// The type of a JSON value for messages: "a string", "an object", "a number with a fraction".
std::string_view kind_of(json_view value);

} // namespace paceline::wire
