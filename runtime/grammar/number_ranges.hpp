#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace paceline::grammar {

/// A bound of numbers: `scaled` / 10^`num_decimals`.
struct decimal_bound {
  std::int64_t scaled = 0;
  std::uint32_t num_decimals = 0;
  bool is_exclusive = false;
};

/// A JSON number with at most 6 decimals and at most 15 digits; nullopt otherwise.
std::optional<decimal_bound> to_bound(const boost::json::value& number, bool is_exclusive);

/// EBNF for all integers from `min` to `max`, both included, without leading zeros; "" if there are none.
std::string integer_range(std::optional<std::int64_t> min, std::optional<std::int64_t> max);

/// The integers that obey both bounds.
std::string integer_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max);

/// EBNF for numbers within the bounds, without exponents; "" if there are none. A number with a fraction has
/// at least as many decimals as the bounds have.
std::string number_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max);

} // namespace paceline::grammar
