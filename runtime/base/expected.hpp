#pragma once

#include "runtime/base/error.hpp"

#include <type_traits>
#include <utility>
#include <variant>

namespace paceline {

/// Either a value or the `error` that prevented it. It has the part of C++23's `std::expected` that the code
/// uses. Reading a value or error that is not there is a programmer error (std::bad_variant_access).
template <class T>
class [[nodiscard]] expected {
 public:
  expected(T value) : state_(std::in_place_index<0>, std::move(value)) {} // NOLINT: implicit by design
  expected(paceline::error failure) : state_(std::in_place_index<1>, std::move(failure)) {} // NOLINT

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const paceline::error& error() const& { return std::get<1>(state_); }
  paceline::error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, paceline::error> state_;
};

/// Success without a value, or an error.
template <>
class [[nodiscard]] expected<void> {
 public:
  expected() = default;
  expected(paceline::error failure) : state_(std::move(failure)) {} // NOLINT

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  const paceline::error& error() const& { return std::get<1>(state_); }
  paceline::error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<std::monostate, paceline::error> state_;
};

} // namespace paceline
