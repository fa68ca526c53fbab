#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

/// Types of metadata values. The numbers are those of the GGUF format.
enum class gguf_type : std::uint8_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

std::string_view to_string(gguf_type type) noexcept;

/// Bytes of one value of a type of fixed size; 0 for strings and arrays.
std::uint32_t size_of(gguf_type type) noexcept;

/// Numbers or booleans as stored in the file: little-endian, unaligned, read one at a time. Indices must be
/// below size().
class gguf_numbers {
 public:
  gguf_numbers(gguf_type type, std::span<const std::byte> bytes) noexcept : type_(type), bytes_(bytes) {}

  gguf_type type() const noexcept { return type_; }
  std::size_t size() const noexcept { return bytes_.size() / size_of(type_); }
  bool is_integer() const noexcept { return type_ != gguf_type::float32 && type_ != gguf_type::float64; }

  /// nullopt if the value is not of an integer type or does not fit.
  std::optional<std::uint64_t> as_uint(std::size_t index) const noexcept;
  std::optional<std::int64_t> as_int(std::size_t index) const noexcept;
  double as_double(std::size_t index) const noexcept;

 private:
  gguf_type type_;
  std::span<const std::byte> bytes_;
};

/// One key and its value, which points into the file. The elements of string arrays are in `strings` of the
/// owning metadata.
struct gguf_entry {
  std::string_view key;
  const std::byte* data = nullptr;   ///< the value, or the first element of an array
  std::uint64_t count = 1;           ///< bytes of a string; elements of an array; 1 otherwise
  std::uint32_t strings_index = 0;   ///< which list of strings, for an array of them
  gguf_type type = gguf_type::uint8; ///< of the value, or of an array's elements
  bool is_array = false;
};

/// The metadata of one GGUF file: unique keys with typed values.
///
/// The `find_*` functions return nullopt if the key is absent, and an error that names file, key and rule if
/// its value has another type or is out of range. The `require_*` functions also fail if the key is absent.
/// Integers are converted between widths and signs if the value fits, because writers differ in these.
class gguf_metadata {
 public:
  gguf_metadata() = default;

  const std::string& file_name() const noexcept { return file_name_; }
  std::span<const gguf_entry> entries() const noexcept { return entries_; } ///< in file order
  const gguf_entry* find(std::string_view key) const noexcept;

  /// Elements of an entry, which must be an array of strings.
  std::span<const std::string_view> strings_of(const gguf_entry& entry) const;
  /// Elements of an entry, which must be numeric, scalar or array.
  static gguf_numbers numbers_of(const gguf_entry& entry);

  expected<std::optional<std::uint64_t>>
  find_uint(std::string_view key, std::uint64_t min = 0,
            std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  expected<std::optional<double>> find_float(std::string_view key, double min, double max) const;
  expected<std::optional<bool>> find_bool(std::string_view key) const;
  expected<std::optional<std::string_view>> find_string(std::string_view key) const;
  expected<std::optional<std::span<const std::string_view>>> find_strings(std::string_view key) const;
  expected<std::optional<gguf_numbers>> find_numbers(std::string_view key) const;

  /// A whole number of 0 to `max` for each layer. The key has one number for all layers, or a list with one
  /// for each. The vector has `num_layers` elements. The caller must have checked that this is not too many.
  expected<std::optional<std::vector<std::uint64_t>>>
  find_per_layer(std::string_view key, std::uint32_t num_layers, std::uint64_t max) const;
  /// A flag for each layer, from a list of booleans, zeros and ones.
  expected<std::optional<std::vector<bool>>> find_layer_flags(std::string_view key,
                                                              std::uint32_t num_layers) const;

  expected<std::uint64_t> require_uint(std::string_view key, std::uint64_t min = 0,
                                       std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  expected<double> require_float(std::string_view key, double min, double max) const;
  expected<std::string_view> require_string(std::string_view key) const;

  /// An error of this file about `key`.
  error key_error(std::string_view key, std::string_view rule, errc code = errc::invalid_file) const;

 private:
  friend class gguf_parser;

  /// The elements of a list of whole numbers of 0 to `max`, one for each layer.
  expected<std::vector<std::uint64_t>> list_per_layer(const gguf_entry& entry, std::uint32_t num_layers,
                                                      std::uint64_t max) const;

  std::string file_name_;
  std::vector<gguf_entry> entries_;
  std::vector<std::uint32_t> by_key_; ///< indices of entries_, ascending by key
  std::vector<std::vector<std::string_view>> strings_;
};

} // namespace paceline::model
