#include "protocol/wire/field_reader.hpp"

#include "protocol/wire/json_writer.hpp"

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parser.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cmath>

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

} // namespace

parsed<json::object> parse_object(std::string_view text, const json_limits& limits) {
  if (text.size() > limits.max_bytes)
    return invalid_json("the JSON text has " + std::to_string(text.size()) + " bytes; at most " +
                        std::to_string(limits.max_bytes) + " are read");
  json::parse_options options;
  options.max_depth = limits.max_depth;
  try {
    json::parser parser({}, options);
    parser.reset(json::make_shared_resource<json::monotonic_resource>());
    json::error_code failure;
    parser.write(text.data(), text.size(), failure);
    if (failure == json::error::too_deep)
      return invalid_json("the JSON text nests deeper than " + std::to_string(limits.max_depth) + " levels");
    if (failure) return invalid_json("the body is not valid JSON: " + failure.message());
    auto value = parser.release();
    if (auto* fields = value.if_object()) return std::move(*fields);
    return invalid_json("the JSON text must be one object");
  } catch (const std::exception&) { // only memory exhaustion is left
    return api_error{
        503, "service_unavailable_error", "resource_exhausted", "not enough memory for this request", "", 1};
  }
}

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
  case json::kind::null:
    return "null";
  case json::kind::bool_:
    return "a boolean";
  case json::kind::int64:
  case json::kind::uint64:
    return "an integer";
  case json::kind::double_:
    return std::isfinite(value.get_double()) ? "a number with a fraction or exponent"
                                             : "a number outside the range of a double";
  case json::kind::string:
    return "a string";
  case json::kind::array:
    return "an array";
  case json::kind::object:
    return "an object";
  }
  return "unknown";
}

field_reader::field_reader(const json::object& fields, std::string path)
    : fields_(fields), path_(std::move(path)) {}

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

const json::value* field_reader::find(std::string_view name) {
  if (failure_) return nullptr;
  const auto* value = fields_.if_contains(name);
  if (value == nullptr) return nullptr;
  read_.push_back(name);
  return value->is_null() ? nullptr : value;
}

void field_reader::accept(std::initializer_list<std::string_view> names) { read_.insert(read_.end(), names); }

void field_reader::refuse(std::string_view name, std::string_view why) {
  if (find(name) != nullptr) fail(unsupported(path_of(name), path_of(name) + ": " + std::string(why)));
}

bool field_reader::boolean(std::string_view name, bool& out) {
  const auto* value = find(name);
  if (value == nullptr) return false;
  if (const auto* flag = value->if_bool()) {
    out = *flag;
    return true;
  }
  fail(name, "must be true or false, not " + std::string(kind_of(*value)));
  return false;
}

bool field_reader::number(std::string_view name, float& out, float_range range) {
  const auto* value = find(name);
  if (value == nullptr) return false;
  const auto rule = [&] {
    return std::string("must be a number ") + (range.min_excluded ? "above " : "from ") + print(range.min) +
           " to " + print(range.max);
  };
  json::error_code not_a_number;
  const auto wide = value->is_number() ? value->to_number<double>(not_a_number) : std::nan("");
  if (!std::isfinite(wide)) {
    fail(name, rule() + ", not " + std::string(kind_of(*value)));
    return false;
  }
  // Clamped so that the conversion is defined; a value this large is outside every range.
  const auto narrow = static_cast<float>(std::clamp(wide, -3.0e38, 3.0e38));
  if (!(range.min_excluded ? narrow > range.min : narrow >= range.min) || !(narrow <= range.max)) {
    fail(name, rule());
    return false;
  }
  out = narrow;
  return true;
}

bool field_reader::text(std::string_view name, std::string& out, std::size_t min_bytes,
                        std::size_t max_bytes) {
  const auto* value = find(name);
  if (value == nullptr) return false;
  const auto* text = value->if_string();
  if (text == nullptr) {
    fail(name, "must be a string, not " + std::string(kind_of(*value)));
    return false;
  }
  if (text->size() < min_bytes || text->size() > max_bytes) {
    fail(name, "must have " + std::to_string(min_bytes) + " to " + std::to_string(max_bytes) +
                   " bytes, has " + std::to_string(text->size()));
    return false;
  }
  out.assign(text->data(), text->size());
  return true;
}

std::optional<std::int64_t> field_reader::to_integer(const json::value& value, std::string_view name,
                                                     std::int64_t min, std::int64_t max) {
  const auto rule = "must be an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (const auto* small = value.if_int64(); small != nullptr && *small >= min && *small <= max) return *small;
  fail(name, value.is_int64() || value.is_uint64() ? rule : rule + ", not " + std::string(kind_of(value)));
  return std::nullopt;
}

bool field_reader::unsigned64(std::string_view name, std::optional<std::uint64_t>& out) {
  const auto* value = find(name);
  if (value == nullptr) return false;
  if (const auto* large = value->if_uint64())
    out = *large;
  else if (const auto* small = value->if_int64(); small != nullptr && *small >= 0)
    out = static_cast<std::uint64_t>(*small);
  else {
    fail(name, "must be an integer from 0 to 18446744073709551615" +
                   (value->is_int64() ? std::string() : ", not " + std::string(kind_of(*value))));
    return false;
  }
  return true;
}

std::optional<std::size_t> field_reader::choice(std::string_view name,
                                                const std::vector<std::string_view>& allowed) {
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

const json::object* field_reader::object(std::string_view name) {
  const auto* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) fail(name, "must be an object, not " + std::string(kind_of(*value)));
  return value->if_object();
}

const json::array* field_reader::array(std::string_view name, std::size_t min_size, std::size_t max_size) {
  const auto* value = find(name);
  if (value == nullptr) return nullptr;
  const auto* elements = value->if_array();
  if (elements == nullptr) {
    fail(name, "must be an array, not " + std::string(kind_of(*value)));
    return nullptr;
  }
  if (elements->size() < min_size || elements->size() > max_size) {
    fail(name, "must have " + std::to_string(min_size) + " to " + std::to_string(max_size) +
                   " elements, has " + std::to_string(elements->size()));
    return nullptr;
  }
  return elements;
}

std::vector<std::string> field_reader::ignored() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : fields_)
    if (std::find(read_.begin(), read_.end(), std::string_view(name)) == read_.end())
      names.push_back(path_of(std::string_view(name)));
  return names;
}

} // namespace paceline::wire
