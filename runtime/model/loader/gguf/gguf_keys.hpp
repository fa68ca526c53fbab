#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"

#include <algorithm>
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

  /// A required number for each layer. The key has one number for all layers, or a list with one for each. 0
  /// means that the layer has none of the counted things. The result has `num_layers` elements, or no element
  /// if the read fails. The caller must have checked that `num_layers` is not too large.
  std::vector<std::uint64_t> per_layer(std::string_view suffix, std::uint32_t num_layers) {
    auto found = keep(metadata_.find_per_layer(key(suffix), num_layers, max_uint32));
    if (!found) refuse(suffix, "is missing");
    return found ? *std::move(found) : std::vector<std::uint64_t>();
  }

  /// The number of `per_layer`, which must be the same for all layers.
  std::uint32_t uniform(std::string_view suffix, std::uint32_t num_layers) {
    const auto values = per_layer(suffix, num_layers);
    if (values.empty()) return 0;
    const auto other = std::ranges::find_if(values, [&](auto value) { return value != values.front(); });
    if (other == values.end()) return static_cast<std::uint32_t>(values.front());
    refuse(suffix,
           "is " + std::to_string(values.front()) + " for layer 0 and " + std::to_string(*other) +
               " for layer " + std::to_string(other - values.begin()) +
               ": this needs sizes of each layer, and layers of architecture " + prefix_ + " have the same",
           errc::unsupported);
    return 0;
  }

  /// A flag for each layer, from a list; empty if the key is absent or invalid.
  std::vector<bool> layer_flags(std::string_view suffix, std::uint32_t num_layers) {
    return keep(metadata_.find_layer_flags(key(suffix), num_layers)).value_or(std::vector<bool>());
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
