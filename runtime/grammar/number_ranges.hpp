#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::grammar {

/// Holds every integer of 64 bits, signed or unsigned, with the decimals of a bound.
__extension__ using scaled_int = __int128;

/// A bound of numbers: `scaled` / 10^`num_decimals`.
struct decimal_bound {
  scaled_int scaled = 0;
  std::uint32_t num_decimals = 0;
  bool is_exclusive = false;
};

/// The largest magnitude of an integer that `to_bound` returns.
inline constexpr std::uint64_t max_whole_bound = 0xFFFF'FFFF'FFFF'FFFF;

/// The bound that a JSON number states. nullopt unless the number is an integer of at most `max_whole_bound`
/// in magnitude, or has at most 6 decimals and at most 15 digits.
std::optional<decimal_bound> to_bound(const boost::json::value& number, bool is_exclusive);

/// True if `number` is a multiple of `unit`; nullopt if one of them has too many digits to tell.
std::optional<bool> is_multiple(const boost::json::value& number, const boost::json::value& unit);
/// The least common multiple of positive numbers; nullopt if it has too many digits.
std::optional<decimal_bound> common_multiple(const decimal_bound& a, const decimal_bound& b);

/// The multiples of `unit` within two bounds; nullopt if there are more than `max_count`, or if they have so
/// many digits that two of them could have the same double.
std::optional<std::vector<decimal_bound>> multiples_between(const decimal_bound& min,
                                                            const decimal_bound& max,
                                                            const decimal_bound& unit, std::size_t max_count);

/// EBNF for the non-negative multiples of a number, digit by digit. `first` is the expression for one
/// multiple. It refers to rules: rule i is named `prefix` followed by i and has the body bodies[i].
struct digit_rules {
  std::string first;
  std::vector<std::string> bodies;
};
/// `with_zero`: 0 is one of the multiples. nullopt if more than 300 rules would be needed, or if `unit` is
/// not positive or has too many digits.
std::optional<digit_rules> multiples_of(const decimal_bound& unit, bool only_integers, bool with_zero,
                                        const std::string& prefix);

/// EBNF for all integers from `min` to `max`, both included, without leading zeros; "" if there are none.
std::string integer_range(std::optional<scaled_int> min, std::optional<scaled_int> max);

/// EBNF for all integers that obey both bounds, without leading zeros; "" if there are none.
std::string integer_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max);

/// EBNF for numbers within the bounds, without exponents; "" if there are none. A number with a fraction has
/// at least as many decimals as the bounds have. If a bound has more than 15 digits, only integers may have
/// more than 15 digits: any other such number, rounded to a double, could be beyond the bound.
std::string number_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max);
/// Like `number_range`, but only for numbers that are not integers.
std::string fraction_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max);

bool is_less(const decimal_bound& a, const decimal_bound& b);
/// True if no number (with `only_integers`: no integer) is within both bounds.
bool is_empty_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max,
                    bool only_integers);
std::string decimal_text(const decimal_bound& number);

} // namespace paceline::grammar
