#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf_metadata.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

/// Reads "PREFIX.SUFFIX" keys one after another and keeps the first error. A read that fails returns a
/// default, so the caller checks `failure` once, before it uses any value. `metadata` must outlive the
/// object.
///
/// Functions without a fallback require the key. The others return the fallback if the key is absent.
class gguf_keys {
 public:
  static constexpr std::uint64_t max_uint32 = std::numeric_limits<std::uint32_t>::max();

  gguf_keys(const gguf_metadata& metadata, std::string_view prefix) : metadata_(metadata), prefix_(prefix) {}

  std::string key(std::string_view suffix) const { return prefix_ + "." + std::string(suffix); }
  bool has(std::string_view suffix) const { return metadata_.find(key(suffix)) != nullptr; }
  const std::optional<error>& failure() const noexcept { return failure_; }

  std::uint32_t uint(std::string_view suffix) {
    return static_cast<std::uint32_t>(keep(metadata_.require_uint(key(suffix), 0, max_uint32)));
  }
  std::uint32_t uint_or(std::string_view suffix, std::uint32_t fallback) {
    return static_cast<std::uint32_t>(
        keep(metadata_.find_uint(key(suffix), 0, max_uint32)).value_or(fallback));
  }
  /// At most 1e30 in magnitude.
  double number(std::string_view suffix) { return keep(metadata_.require_float(key(suffix), -1e30, 1e30)); }
  double number_or(std::string_view suffix, double fallback) {
    return keep(metadata_.find_float(key(suffix), -1e30, 1e30)).value_or(fallback);
  }
  std::string_view string_or(std::string_view suffix, std::string_view fallback) {
    return keep(metadata_.find_string(key(suffix))).value_or(fallback);
  }
  bool flag_or(std::string_view suffix, bool fallback) {
    return keep(metadata_.find_bool(key(suffix))).value_or(fallback);
  }

  /// A required number, or a list of one number for each layer. The numbers of a list must be equal.
  std::uint32_t uniform(std::string_view suffix) {
    const auto* entry = metadata_.find(key(suffix));
    if (!entry || !entry->is_array) return uint(suffix);
    const auto values = keep(metadata_.find_numbers(key(suffix)));
    if (!values) return 0;
    if (values->size() == 0) return refuse(suffix, "must not be empty"), 0;
    const auto first = values->as_uint(0);
    if (!first || *first > max_uint32)
      return refuse(suffix, "must be whole numbers from 0 to " + std::to_string(max_uint32)), 0;
    for (std::size_t i = 0; i < values->size(); ++i)
      if (values->as_uint(i) != first)
        return refuse(suffix, "differs between layers, which is not supported", errc::unsupported), 0;
    return static_cast<std::uint32_t>(*first);
  }

  /// A required list of one number for each of `num_layers` layers.
  std::vector<std::uint32_t> of_layers(std::string_view suffix, std::uint32_t num_layers) {
    const auto values = keep(metadata_.find_numbers(key(suffix)));
    if (!values || values->size() != num_layers)
      return refuse(suffix, "must have one number for each of the " + std::to_string(num_layers) + " layers"),
             std::vector<std::uint32_t>{};
    std::vector<std::uint32_t> numbers;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const auto value = values->as_uint(i);
      if (!value || *value > max_uint32)
        return refuse(suffix, "must be whole numbers from 0 to " + std::to_string(max_uint32)),
               std::vector<std::uint32_t>{};
      numbers.push_back(static_cast<std::uint32_t>(*value));
    }
    return numbers;
  }

  /// Records that the key breaks `rule`, unless there is an error already.
  void refuse(std::string_view suffix, std::string_view rule, errc code = errc::invalid_file) {
    if (!failure_) failure_ = metadata_.key_error(key(suffix), rule, code);
  }

 private:
  template <class T>
  T keep(expected<T> value) {
    if (value) return std::move(value).value();
    if (!failure_) failure_ = std::move(value).error();
    return T{};
  }

  const gguf_metadata& metadata_;
  std::string prefix_;
  std::optional<error> failure_;
};

} // namespace paceline::model
