#include "runtime/model/loader/gguf/gguf_metadata.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/quote.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace paceline::model {

static_assert(std::endian::native == std::endian::little, "model files are read in place");

namespace {

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

std::string describe(const gguf_entry& entry) {
  std::string text(to_string(entry.type));
  return entry.is_array ? "an array of " + text : text;
}

std::string number_text(double value) {
  std::string text = std::to_string(value);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// Turns an absent value into an error.
template <class T>
expected<T> require(expected<std::optional<T>> found, const gguf_metadata& metadata, std::string_view key) {
  if (!found) return std::move(found).error();
  if (!*found) return metadata.key_error(key, "is missing");
  return **found;
}

} // namespace

std::string_view to_string(gguf_type type) noexcept {
  switch (type) {
  case gguf_type::uint8:
    return "uint8";
  case gguf_type::int8:
    return "int8";
  case gguf_type::uint16:
    return "uint16";
  case gguf_type::int16:
    return "int16";
  case gguf_type::uint32:
    return "uint32";
  case gguf_type::int32:
    return "int32";
  case gguf_type::float32:
    return "float32";
  case gguf_type::boolean:
    return "bool";
  case gguf_type::string:
    return "string";
  case gguf_type::array:
    return "array";
  case gguf_type::uint64:
    return "uint64";
  case gguf_type::int64:
    return "int64";
  case gguf_type::float64:
    return "float64";
  }
  return "unknown";
}

std::uint32_t size_of(gguf_type type) noexcept {
  switch (type) {
  case gguf_type::uint8:
  case gguf_type::int8:
  case gguf_type::boolean:
    return 1;
  case gguf_type::uint16:
  case gguf_type::int16:
    return 2;
  case gguf_type::uint32:
  case gguf_type::int32:
  case gguf_type::float32:
    return 4;
  case gguf_type::uint64:
  case gguf_type::int64:
  case gguf_type::float64:
    return 8;
  case gguf_type::string:
  case gguf_type::array:
    return 0;
  }
  return 0;
}

std::optional<std::int64_t> gguf_numbers::as_int(std::size_t index) const noexcept {
  const std::byte* at = bytes_.data() + index * size_of(type_);
  switch (type_) {
  case gguf_type::uint8:
  case gguf_type::boolean:
    return load<std::uint8_t>(at);
  case gguf_type::int8:
    return load<std::int8_t>(at);
  case gguf_type::uint16:
    return load<std::uint16_t>(at);
  case gguf_type::int16:
    return load<std::int16_t>(at);
  case gguf_type::uint32:
    return load<std::uint32_t>(at);
  case gguf_type::int32:
    return load<std::int32_t>(at);
  case gguf_type::int64:
    return load<std::int64_t>(at);
  case gguf_type::uint64: {
    const auto value = load<std::uint64_t>(at);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(value);
  }
  default:
    return std::nullopt;
  }
}

std::optional<std::uint64_t> gguf_numbers::as_uint(std::size_t index) const noexcept {
  if (type_ == gguf_type::uint64) return load<std::uint64_t>(bytes_.data() + index * sizeof(std::uint64_t));
  const auto value = as_int(index);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

double gguf_numbers::as_double(std::size_t index) const noexcept {
  if (type_ == gguf_type::float32) return load<float>(bytes_.data() + index * sizeof(float));
  if (type_ == gguf_type::float64) return load<double>(bytes_.data() + index * sizeof(double));
  if (type_ == gguf_type::uint64)
    return static_cast<double>(load<std::uint64_t>(bytes_.data() + index * sizeof(std::uint64_t)));
  return static_cast<double>(*as_int(index));
}

const gguf_entry* gguf_metadata::find(std::string_view key) const noexcept {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](std::uint32_t i, std::string_view k) { return entries_[i].key < k; });
  if (at == by_key_.end() || entries_[*at].key != key) return nullptr;
  return &entries_[*at];
}

std::span<const std::string_view> gguf_metadata::strings_of(const gguf_entry& entry) const {
  PACELINE_CHECK(entry.is_array && entry.type == gguf_type::string, std::string(entry.key));
  return strings_[entry.strings_index];
}

gguf_numbers gguf_metadata::numbers_of(const gguf_entry& entry) {
  PACELINE_CHECK(size_of(entry.type) != 0, std::string(entry.key));
  return gguf_numbers(entry.type, std::span(entry.data, entry.count * size_of(entry.type)));
}

error gguf_metadata::key_error(std::string_view key, std::string_view rule, errc code) const {
  return error(code, file_name_ + ": metadata key " + quote(key) + " " + std::string(rule));
}

expected<std::optional<std::uint64_t>> gguf_metadata::find_uint(std::string_view key, std::uint64_t min,
                                                                std::uint64_t max) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<std::uint64_t>();
  if (entry->is_array || entry->type == gguf_type::boolean || size_of(entry->type) == 0 ||
      !numbers_of(*entry).is_integer())
    return key_error(key, "must be an integer, is " + describe(*entry));
  const auto value = numbers_of(*entry).as_uint(0);
  if (!value || *value < min || *value > max) {
    const auto is = value ? std::to_string(*value) : std::to_string(*numbers_of(*entry).as_int(0));
    return key_error(key, "must be " + std::to_string(min) + " to " + std::to_string(max) + ", is " + is);
  }
  return value;
}

expected<std::optional<double>> gguf_metadata::find_float(std::string_view key, double min,
                                                          double max) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<double>();
  if (entry->is_array || entry->type == gguf_type::boolean || size_of(entry->type) == 0)
    return key_error(key, "must be a number, is " + describe(*entry));
  const double value = numbers_of(*entry).as_double(0);
  // Written so that NaN fails.
  if (!(value >= min && value <= max))
    return key_error(key, "must be " + number_text(min) + " to " + number_text(max) + ", is " +
                              number_text(value));
  return std::optional<double>(value);
}

expected<std::optional<bool>> gguf_metadata::find_bool(std::string_view key) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<bool>();
  if (entry->is_array || entry->type != gguf_type::boolean)
    return key_error(key, "must be a bool, is " + describe(*entry));
  return std::optional<bool>(*numbers_of(*entry).as_uint(0) != 0);
}

expected<std::optional<std::string_view>> gguf_metadata::find_string(std::string_view key) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<std::string_view>();
  if (entry->is_array || entry->type != gguf_type::string)
    return key_error(key, "must be a string, is " + describe(*entry));
  return std::optional(std::string_view(reinterpret_cast<const char*>(entry->data), entry->count));
}

expected<std::optional<std::span<const std::string_view>>>
gguf_metadata::find_strings(std::string_view key) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<std::span<const std::string_view>>();
  if (!entry->is_array || entry->type != gguf_type::string)
    return key_error(key, "must be an array of strings, is " + describe(*entry));
  return std::optional(strings_of(*entry));
}

expected<std::optional<gguf_numbers>> gguf_metadata::find_numbers(std::string_view key) const {
  const auto* entry = find(key);
  if (!entry) return std::optional<gguf_numbers>();
  if (!entry->is_array || size_of(entry->type) == 0)
    return key_error(key, "must be an array of numbers, is " + describe(*entry));
  return std::optional(numbers_of(*entry));
}

expected<std::vector<std::uint64_t>>
gguf_metadata::list_per_layer(const gguf_entry& entry, std::uint32_t num_layers, std::uint64_t max) const {
  if (entry.count != num_layers)
    return key_error(entry.key, "must have one element for each of the " + std::to_string(num_layers) +
                                    " layers, has " + std::to_string(entry.count));
  const auto numbers = numbers_of(entry);
  std::vector<std::uint64_t> values;
  values.reserve(num_layers);
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    const auto value = numbers.as_uint(layer);
    if (!value || *value > max)
      return key_error(entry.key,
                       "must be 0 to " + std::to_string(max) + ", is " +
                           (value ? std::to_string(*value) : std::to_string(*numbers.as_int(layer))) +
                           " for layer " + std::to_string(layer));
    values.push_back(*value);
  }
  return values;
}

expected<std::optional<std::vector<std::uint64_t>>>
gguf_metadata::find_per_layer(std::string_view key, std::uint32_t num_layers, std::uint64_t max) const {
  using found = std::optional<std::vector<std::uint64_t>>;
  const auto* entry = find(key);
  if (!entry) return found();
  if (entry->type == gguf_type::boolean || size_of(entry->type) == 0 || !numbers_of(*entry).is_integer())
    return key_error(key, "must be an integer, or an array of one for each layer, is " + describe(*entry));
  if (entry->is_array) {
    auto values = list_per_layer(*entry, num_layers, max);
    if (!values) return std::move(values).error();
    return found(*std::move(values));
  }
  const auto value = find_uint(key, 0, max);
  if (!value) return value.error();
  return found(std::in_place, num_layers, **value);
}

expected<std::optional<std::vector<bool>>> gguf_metadata::find_layer_flags(std::string_view key,
                                                                           std::uint32_t num_layers) const {
  using found = std::optional<std::vector<bool>>;
  const auto* entry = find(key);
  if (!entry) return found();
  if (!entry->is_array || size_of(entry->type) == 0 || !numbers_of(*entry).is_integer())
    return key_error(key, "must be an array of one flag for each layer, is " + describe(*entry));
  const auto values = list_per_layer(*entry, num_layers, 1);
  if (!values) return values.error();
  return found(std::in_place, values->begin(), values->end());
}

expected<std::uint64_t> gguf_metadata::require_uint(std::string_view key, std::uint64_t min,
                                                    std::uint64_t max) const {
  return require(find_uint(key, min, max), *this, key);
}

expected<double> gguf_metadata::require_float(std::string_view key, double min, double max) const {
  return require(find_float(key, min, max), *this, key);
}

expected<std::string_view> gguf_metadata::require_string(std::string_view key) const {
  return require(find_string(key), *this, key);
}

} // namespace paceline::model
