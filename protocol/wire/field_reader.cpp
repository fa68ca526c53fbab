#include "protocol/wire/field_reader.hpp"

#include "protocol/wire/fields/field_table.hpp"
#include "protocol/wire/json_writer.hpp"

#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::wire {

namespace json = boost::json;

namespace {

api_error invalid_json(std::string message) {
  return {400, "invalid_request_error", "invalid_json", std::move(message), "", 0};
}

std::string print(float number) {
  json_writer out;
  return out.value(number).take();
}

/// Receives every part of a text and ignores it: only the parser's checks matter.
struct checking_handler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  using code = json::error_code&;
  bool is_object = false;
  std::size_t depth = 0;
  bool on_document_begin(code) { return true; }
  bool on_document_end(code) { return true; }
  bool on_object_begin(code) {
    is_object = is_object || depth == 0;
    ++depth;
    return true;
  }
  bool on_object_end(std::size_t, code) {
    --depth;
    return true;
  }
  bool on_array_begin(code) {
    ++depth;
    return true;
  }
  bool on_array_end(std::size_t, code) {
    --depth;
    return true;
  }
  bool on_key_part(json::string_view, std::size_t, code) { return true; }
  bool on_key(json::string_view, std::size_t, code) { return true; }
  bool on_string_part(json::string_view, std::size_t, code) { return true; }
  bool on_string(json::string_view, std::size_t, code) { return true; }
  bool on_number_part(json::string_view, code) { return true; }
  bool on_int64(std::int64_t, json::string_view, code) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, code) { return true; }
  bool on_double(double, json::string_view, code) { return true; }
  bool on_bool(bool, code) { return true; }
  bool on_null(code) { return true; }
  bool on_comment_part(json::string_view, code) { return true; }
  bool on_comment(json::string_view, code) { return true; }
};

/// The index of the member's name among the names of the field table; -1 if it is not there.
int index_of(const json_member& member) {
  const auto index = index_of_name(member.raw_name);
  if (index >= 0 || member.raw_name.find('\\') == std::string_view::npos) return index;
  // An escaped character has at most six bytes, so no longer text can spell a name of the table.
  constexpr std::size_t escape_bytes = 6;
  return member.raw_name.size() > escape_bytes * longest_field_name ? -1 : index_of_name(member.name());
}

} // namespace

parsed<json_view> parse_object(std::string_view text, const json_limits& limits) {
  const auto max_bytes = std::min<std::size_t>(limits.max_bytes, std::numeric_limits<std::uint32_t>::max());
  if (text.size() > max_bytes)
    return invalid_json("the JSON text has " + std::to_string(text.size()) + " bytes; at most " +
                        std::to_string(max_bytes) + " are read");
  json::parse_options options;
  options.max_depth = limits.max_depth;
  json::basic_parser<checking_handler> parser(options);
  json::error_code failure;
  const auto num_read = parser.write_some(false, text.data(), text.size(), failure);
  if (failure == json::error::too_deep)
    return invalid_json(std::string(nests_too_deep) + std::to_string(limits.max_depth) + " levels");
  if (!failure && num_read < text.size()) failure = json::error::extra_data;
  if (failure) return invalid_json("the body is not valid JSON: " + failure.message());
  if (!parser.handler().is_object) return invalid_json("the JSON text must be one object");
  constexpr std::string_view blanks = " \t\r\n";
  const auto begin = text.find_first_not_of(blanks);
  return json_view(text.substr(begin, text.find_last_not_of(blanks) + 1 - begin));
}

std::string_view kind_of(json_view value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "a boolean";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.int64() || value.uint64()) return "an integer";
  return std::isfinite(*value.number()) ? "a number with a fraction or exponent"
                                        : "a number outside the range of a double";
}

field_reader::field_reader(json_view fields, std::string path)
    : fields_(fields), places_(num_field_names, 0), path_(std::move(path)) {
  for (const auto member : fields.members()) {
    const auto index = index_of(member);
    if (index < 0) continue;
    if (auto* repeated = member_named(index)) {
      repeated->value = member.value;
      continue;
    }
    members_.push_back({index, member.value});
    places_[static_cast<std::size_t>(index)] = static_cast<std::uint8_t>(members_.size());
  }
}

field_reader::member* field_reader::member_named(int index) {
  const auto place = index < 0 ? 0 : places_[static_cast<std::size_t>(index)];
  return place == 0 ? nullptr : &members_[place - 1U];
}

std::string field_reader::path_of(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void field_reader::fail(std::string_view name, std::string_view rule) {
  const auto path = path_of(name);
  fail(invalid_value(path, path + ": " + std::string(rule)));
}

void field_reader::fail(api_error failure) {
  if (!failure_) failure_ = std::move(failure);
}

std::optional<json_view> field_reader::find(std::string_view name) {
  if (failure_) return std::nullopt;
  std::optional<json_view> found;
  if (const auto index = index_of_name(name); index >= 0) {
    auto* entry = member_named(index);
    if (entry == nullptr) return std::nullopt;
    entry->is_read = true;
    found = entry->value;
  } else {
    found = member_of(fields_, name);
    if (!found) return std::nullopt;
    read_.push_back(name);
  }
  return found->is_null() ? std::nullopt : found;
}

void field_reader::mark_as_read(std::string_view name) {
  const auto index = index_of_name(name);
  if (index < 0)
    read_.push_back(name);
  else if (auto* entry = member_named(index))
    entry->is_read = true;
}

void field_reader::refuse(std::string_view name, std::string_view why) {
  if (find(name)) fail(unsupported(path_of(name), path_of(name) + ": " + std::string(why)));
}

void field_reader::refuse(const field_spec& row) {
  const auto value = find(row.name);
  if (!value || is_neutral(row.neutral, *value)) return;
  auto rule = std::string(row.doc);
  if (!row.neutral_text.empty()) rule.append("; only ").append(row.neutral_text).append(" is accepted");
  refuse(row.name, rule);
}

void field_reader::check(const field_spec& row) {
  bool flag = false;
  std::int64_t integer_value = 0;
  std::string text_value;
  if (row.state == field_state::refused) return refuse(row);
  switch (row.type) {
  case field_type::boolean:
    boolean(row, flag);
    return;
  case field_type::integer:
    integer(row, integer_value);
    return;
  case field_type::text:
    if (row.choices.empty())
      text(row, text_value);
    else
      choice(row);
    return;
  case field_type::object:
    object(row);
    return;
  case field_type::object_list:
    array(row);
    return;
  case field_type::text_or_objects:
    if (const auto value = find(row); value && !value->is_string() && !value->is_array())
      fail(row.name, "must be a string or an array of parts, not " + std::string(kind_of(*value)));
    return;
  default: // the fields of other objects do not depend on one another
    return;
  }
}

void field_reader::check_unread(std::string_view path, request_kinds kind) {
  const auto is_read = [](const member& entry) { return entry.is_read; };
  if (std::all_of(members_.begin(), members_.end(), is_read)) return;
  for (const auto& group : field_groups)
    for (const auto& row : group.rows) {
      if (row.object != path || (row.where & kind) == 0) continue;
      const auto* entry = member_named(index_of_name(row.name));
      if (entry != nullptr && !entry->is_read) check(row);
    }
}

bool field_reader::boolean(std::string_view name, bool& out) {
  const auto value = find(name);
  if (!value) return false;
  if (const auto flag = value->boolean()) {
    out = *flag;
    return true;
  }
  fail(name, "must be true or false, not " + std::string(kind_of(*value)));
  return false;
}

bool field_reader::number(std::string_view name, float& out, float_range range) {
  const auto value = find(name);
  const auto read = value ? to_number(*value, name, range) : std::nullopt;
  if (read) out = *read;
  return read.has_value();
}

std::optional<float> field_reader::to_number(json_view value, std::string_view name, float_range range) {
  const auto rule = [&] {
    return std::string("must be a number ") + (range.min_excluded ? "above " : "from ") + print(range.min) +
           " to " + print(range.max);
  };
  const auto wide = value.number().value_or(std::nan(""));
  if (!std::isfinite(wide)) {
    fail(name, rule() + ", not " + std::string(kind_of(value)));
    return std::nullopt;
  }
  // The value is clamped so that the conversion is defined. Such a value is out of every range.
  const auto narrow = static_cast<float>(std::clamp(wide, -3.0e38, 3.0e38));
  if (!(range.min_excluded ? narrow > range.min : narrow >= range.min) || !(narrow <= range.max)) {
    fail(name, rule());
    return std::nullopt;
  }
  return narrow;
}

bool field_reader::text(std::string_view name, std::string& out, std::size_t min_bytes,
                        std::size_t max_bytes) {
  const auto value = find(name);
  if (!value) return false;
  auto text = value->string();
  if (!text) {
    fail(name, "must be a string, not " + std::string(kind_of(*value)));
    return false;
  }
  if (text->size() < min_bytes || text->size() > max_bytes) {
    fail(name, "must have " + std::to_string(min_bytes) + " to " + std::to_string(max_bytes) +
                   " bytes, has " + std::to_string(text->size()));
    return false;
  }
  out = *std::move(text);
  return true;
}

std::optional<std::int64_t> field_reader::to_integer(json_view value, std::string_view name, std::int64_t min,
                                                     std::int64_t max) {
  if (const auto read = value.int64(); read && *read >= min && *read <= max) return read;
  const auto rule = "must be an integer from " + std::to_string(min) + " to " + std::to_string(max);
  fail(name, value.int64() || value.uint64() ? rule : rule + ", not " + std::string(kind_of(value)));
  return std::nullopt;
}

std::optional<std::size_t> field_reader::choice(std::string_view name,
                                                std::span<const std::string_view> allowed) {
  std::string text;
  if (!this->text(name, text, 0, 256)) return std::nullopt;
  const auto match = std::find(allowed.begin(), allowed.end(), text);
  if (match != allowed.end()) return static_cast<std::size_t>(match - allowed.begin());
  std::string rule = "must be one of";
  for (const auto& option : allowed)
    rule += (&option == &allowed.front() ? " \"" : ", \"") + std::string(option) + '"';
  fail(name, rule);
  return std::nullopt;
}

std::optional<json_view> field_reader::object(std::string_view name) {
  const auto value = find(name);
  if (!value || value->is_object()) return value;
  fail(name, "must be an object, not " + std::string(kind_of(*value)));
  return std::nullopt;
}

std::optional<json_elements> field_reader::array(std::string_view name, std::size_t min_size,
                                                 std::size_t max_size) {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_array()) {
    fail(name, "must be an array, not " + std::string(kind_of(*value)));
    return std::nullopt;
  }
  const auto elements = value->elements();
  const auto size = elements.count();
  if (size < min_size || size > max_size) {
    fail(name, "must have " + std::to_string(min_size) + " to " + std::to_string(max_size) +
                   " elements, has " + std::to_string(size));
    return std::nullopt;
  }
  return elements;
}

void field_reader::adopt(const field_reader& inner) {
  if (inner.failure()) return fail(*inner.failure());
  for (auto& name : inner.ignored())
    if (ignored_inside_.size() < max_ignored) ignored_inside_.push_back(std::move(name));
}

std::vector<std::string> field_reader::ignored() const {
  constexpr std::size_t max_name_bytes = 256;
  std::vector<std::string> names = ignored_inside_;
  std::vector<std::string_view> raw_names; // a name may be repeated a million times
  for (const auto member : fields_.members()) {
    if (std::find(raw_names.begin(), raw_names.end(), member.raw_name) != raw_names.end()) continue;
    const auto index = index_of(member);
    const bool is_read = index >= 0 ? members_[places_[static_cast<std::size_t>(index)] - 1U].is_read
                                    : std::any_of(read_.begin(), read_.end(),
                                                  [&](auto name) { return member.is_named(name); });
    if (is_read) continue;
    if (names.size() == max_ignored) break;
    auto name = path_of(member.name().substr(0, max_name_bytes));
    raw_names.push_back(member.raw_name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

} // namespace paceline::wire
