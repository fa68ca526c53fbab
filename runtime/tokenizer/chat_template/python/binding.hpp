#pragma once

#include "runtime/tokenizer/chat_template/python/runtime.hpp"

#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// Arguments matched to the parameters of a native function, method, filter or test.
class bound_arguments {
 public:
  static constexpr std::size_t max_parameters = 6;

  bool given(std::size_t i) const { return !values_[i].is_missing(); }
  const value& operator[](std::size_t i) const { return values_[i]; }
  value get(std::size_t i, const value& fallback) const { return given(i) ? values_[i] : fallback; }
  /// The text of a string argument, or `fallback` when it was not given.
  std::string_view text(runtime& rt, std::size_t i, std::string_view fallback = {}) const;
  wide_int integer(runtime& rt, std::size_t i, wide_int fallback = 0) const;
  /// The truth value of the argument.
  bool flag(runtime& rt, std::size_t i, bool fallback = false) const;
  /// True if the argument was given and is not None.
  bool has(std::size_t i) const { return given(i) && !values_[i].is_none(); }

 private:
  friend bound_arguments bind(std::string_view, const call_arguments&,
                              std::initializer_list<std::string_view>, std::size_t);
  std::array<value, max_parameters> values_;
};

/// Matches arguments to parameters. Fails like Python on too many, too few, unknown or repeated arguments. A
/// parameter named "" can be given by position only.
bound_arguments bind(std::string_view function, const call_arguments& arguments,
                     std::initializer_list<std::string_view> parameters, std::size_t num_required = 0);

/// An integer clamped to the range of a signed 64-bit number, for positions and counts.
std::int64_t clamp_to_int64(wide_int number) noexcept;

} // namespace paceline::tokenizer::jinja
