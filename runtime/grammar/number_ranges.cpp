#include "runtime/grammar/number_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace paceline::grammar {

namespace {

constexpr std::uint32_t max_decimals = 6;
/// Of numbers with a fraction, in units of the last decimal: doubles tell such numbers apart.
constexpr std::int64_t max_scaled_fraction = 1'000'000'000'000'000;

scaled_int power_of_ten(std::uint32_t exponent) {
  scaled_int value = 1;
  while (exponent-- > 0) value *= 10;
  return value;
}

/// `value` must not be negative.
std::string digits_of(scaled_int value) {
  std::string out;
  do {
    out.insert(out.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value > 0);
  return out;
}

std::string digit_class(char first, char last) {
  if (first == last) return std::string{'"', first, '"'};
  return std::string{'[', first, '-', last, ']'};
}

std::string grouped(const std::vector<std::string>& alternatives) {
  std::string out;
  for (const auto& alternative : alternatives) {
    if (alternative.empty()) continue;
    if (!out.empty()) out += " | ";
    out += alternative;
  }
  return out.empty() ? out : "(" + out + ")";
}

/// Rules for digits with a decimal point before the last `num_decimals` ones.
class digit_ranges {
 public:
  explicit digit_ranges(std::uint32_t num_decimals) : num_decimals_(num_decimals) {}

  /// All texts from `low` to `high`, which have the same number of digits.
  std::string between(std::string_view low, std::string_view high) const {
    if (low.empty()) return "";
    const std::string point = low.size() == num_decimals_ ? "\".\" " : "";
    const auto rest = low.size() - 1;
    const std::string zeros(rest, '0');
    const std::string nines(rest, '9');
    if (low[0] == high[0])
      return point + digit_class(low[0], low[0]) + " " + between(low.substr(1), high.substr(1));
    std::vector<std::string> parts;
    char first = low[0];
    char last = high[0];
    if (low.substr(1) != zeros)
      parts.push_back(digit_class(first, first) + " " + between(low.substr(1), nines)), ++first;
    std::string end;
    if (high.substr(1) != nines) end = digit_class(last, last) + " " + between(zeros, high.substr(1)), --last;
    if (first <= last) parts.push_back(digit_class(first, last) + " " + any(rest));
    parts.push_back(end);
    return point + grouped(parts);
  }

  /// All texts of `count` digits.
  std::string any(std::size_t count) const {
    std::string out;
    for (; count > 0; --count) {
      if (count == num_decimals_) out += "\".\" ";
      out += "[0-9] ";
    }
    return out;
  }

  /// All non-negative numbers from `min` to `max`, in units of the last decimal. Without `max` there is no
  /// upper bound.
  std::string natural(scaled_int min, std::optional<scaled_int> max) const {
    std::vector<std::string> parts;
    const auto least_digits = num_decimals_ + 1;
    const std::string low = digits_of(min);
    const std::string high = max ? digits_of(*max) : std::string();
    const auto most_digits = max ? high.size() : low.size();
    for (auto size = std::max<std::size_t>(least_digits, low.size());
         size <= std::max<std::size_t>(least_digits, most_digits); ++size) {
      std::string from = digits_of(
          std::max(min, size == least_digits ? 0 : power_of_ten(static_cast<std::uint32_t>(size) - 1)));
      std::string to = max && high.size() <= size ? high : std::string(size, '9');
      from.insert(0, size - std::min(size, from.size()), '0');
      to.insert(0, size - std::min(size, to.size()), '0');
      if (from <= to) parts.push_back(between(from, to));
    }
    if (!max) {
      const auto size = std::max<std::size_t>(least_digits, low.size());
      parts.push_back("[1-9] [0-9]* " + any(size));
    }
    return grouped(parts);
  }

 private:
  std::uint32_t num_decimals_;
};

scaled_int floor_div(scaled_int a, scaled_int b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

scaled_int lowest_integer(const decimal_bound& min) {
  const auto unit = power_of_ten(min.num_decimals);
  const auto below = floor_div(min.scaled, unit);
  return below * unit == min.scaled && !min.is_exclusive ? below : below + 1;
}

scaled_int highest_integer(const decimal_bound& max) {
  const auto unit = power_of_ten(max.num_decimals);
  const auto below = floor_div(max.scaled, unit);
  return below * unit == max.scaled && max.is_exclusive ? below - 1 : below;
}

decimal_bound with_decimals(decimal_bound bound, std::uint32_t num_decimals) {
  bound.scaled *= power_of_ten(num_decimals - bound.num_decimals);
  bound.num_decimals = num_decimals;
  return bound;
}

/// How many digits may follow `scaled`, a number in units of the last decimal, before one more digit. The
/// limit makes sure that a program that reads the number as a double does not round it to a number of fewer
/// digits.
int spare_digits(scaled_int scaled) {
  constexpr int safe_digits = 15;
  return std::max(safe_digits - 1 - static_cast<int>(digits_of(scaled).size()), 0);
}

/// All numbers from 0 up that are within the bounds, which have `k` decimals each.
std::string magnitude_range(std::optional<decimal_bound> min, const std::optional<decimal_bound>& max,
                            std::uint32_t k) {
  if (max && (max->scaled < 0 || (max->scaled == 0 && max->is_exclusive))) return "";
  if (!min || min->scaled < 0) min = decimal_bound{0, k, false};
  const digit_ranges digits(k);
  // A program that reads numbers as doubles must not round a number to an exclusive bound.
  const auto spare = spare_digits(max ? std::max(min->scaled, max->scaled) : min->scaled);
  const std::string decimals = max && max->is_exclusive ? "[0-9]{0," + std::to_string(spare) + "}" : "[0-9]*";
  const std::string more = k == 0 ? " (\".\" [0-9] " + decimals + ")?" : " " + decimals;
  const std::string none = k == 0 ? " (\".\" \"0\"+)?" : " \"0\"*";
  const std::string some = (k == 0 ? std::string(" \".\"") : std::string()) + " [0-9]{0," +
                           std::to_string(spare) + "} [1-9] \"0\"*";
  std::vector<std::string> parts;
  auto low = min->scaled;
  const bool is_point = max && max->scaled <= low;
  if (is_point) {
    if (max->scaled < low || min->is_exclusive || max->is_exclusive) return "";
    return digits.natural(low, low) + none;
  }
  if (min->is_exclusive) parts.push_back(digits.natural(low, low) + some), ++low;
  std::optional<scaled_int> high;
  if (max) high = max->scaled - 1;
  if (!high || low <= *high) {
    const auto body = digits.natural(low, high);
    if (!body.empty()) parts.push_back(body + more);
  }
  if (max && !max->is_exclusive) parts.push_back(digits.natural(max->scaled, max->scaled) + none);
  return grouped(parts);
}

std::optional<decimal_bound> negated(const std::optional<decimal_bound>& bound) {
  if (!bound) return std::nullopt;
  return decimal_bound{-bound->scaled, bound->num_decimals, bound->is_exclusive};
}

} // namespace

std::optional<decimal_bound> to_bound(const boost::json::value& number, bool is_exclusive) {
  if (const auto* whole = number.if_int64()) return decimal_bound{*whole, 0, is_exclusive};
  if (const auto* whole = number.if_uint64()) return decimal_bound{*whole, 0, is_exclusive};
  const double value = number.get_double();
  constexpr double two_to_64 = 18446744073709551616.0;
  if (std::floor(value) == value)
    return std::abs(value) < two_to_64
               ? std::optional(decimal_bound{static_cast<scaled_int>(value), 0, is_exclusive})
               : std::nullopt;
  for (std::uint32_t k = 1; k <= max_decimals; ++k) {
    const auto unit = static_cast<double>(power_of_ten(k));
    const double scaled = std::round(value * unit);
    if (std::abs(scaled) > static_cast<double>(max_scaled_fraction)) break;
    if (scaled / unit == value) return decimal_bound{static_cast<scaled_int>(scaled), k, is_exclusive};
  }
  return std::nullopt;
}

std::string integer_range(std::optional<scaled_int> min, std::optional<scaled_int> max) {
  const digit_ranges digits(0);
  std::vector<std::string> parts;
  if (!min || *min < 0) {
    const auto low = max ? std::max<scaled_int>(1, -*max) : 1;
    std::optional<scaled_int> high;
    if (min) high = -*min;
    if (!high || low <= *high) parts.push_back("\"-\" " + digits.natural(low, high));
  }
  if (!max || *max >= 0) {
    const auto low = min ? std::max<scaled_int>(0, *min) : 0;
    if (!max || low <= *max) parts.push_back(digits.natural(low, max));
  }
  return grouped(parts);
}

std::string integer_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max) {
  std::optional<scaled_int> low;
  std::optional<scaled_int> high;
  if (min) low = lowest_integer(*min);
  if (max) high = highest_integer(*max);
  if (low && high && *low > *high) return "";
  return integer_range(low, high);
}

std::string number_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max) {
  const auto k = std::max(min ? min->num_decimals : 0, max ? max->num_decimals : 0);
  std::optional<decimal_bound> low;
  std::optional<decimal_bound> high;
  if (min) low = with_decimals(*min, k);
  if (max) high = with_decimals(*max, k);
  const auto is_long = [](const std::optional<decimal_bound>& bound) {
    return bound && (bound->scaled > max_scaled_fraction || bound->scaled < -max_scaled_fraction);
  };
  const bool has_long_bound = is_long(low) || is_long(high);
  if (has_long_bound) {
    if (!low || low->scaled < -max_scaled_fraction) low = decimal_bound{-max_scaled_fraction, k, false};
    if (!high || high->scaled > max_scaled_fraction) high = decimal_bound{max_scaled_fraction, k, false};
  }
  std::vector<std::string> parts;
  if (k > 0 || has_long_bound) parts.push_back(integer_range(min, max));
  parts.push_back(magnitude_range(low, high, k));
  if (const auto below = magnitude_range(negated(high), negated(low), k);
      !below.empty() && (!low || low->scaled < 0))
    parts.push_back("\"-\" " + below);
  return grouped(parts);
}

std::string fraction_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max) {
  const digit_ranges digits(0);
  // Few decimals, so that a double represents the fraction.
  const std::string fraction = " \".\" [0-9]{0,5} [1-9] \"0\"*";
  constexpr scaled_int most = 99'999'999;
  // A bound that is no integer is rounded inwards to an integer. Fractions between the bound and that integer
  // are left out.
  const auto inclusive = [](decimal_bound bound) {
    bound.is_exclusive = false;
    return bound;
  };
  std::optional<scaled_int> low;
  std::optional<scaled_int> high;
  if (min) low = lowest_integer(inclusive(*min));
  if (max) high = highest_integer(inclusive(*max));
  std::vector<std::string> parts;
  const auto put = [&](const std::string& sign, scaled_int from, std::optional<scaled_int> to) {
    if (const auto last = std::min(to.value_or(most), most) - 1; from <= last)
      parts.push_back(sign + digits.natural(from, last) + fraction);
  };
  if (!max || *high > 0) put("", std::max<scaled_int>(low.value_or(0), 0), high);
  if (!min || *low < 0)
    put("\"-\" ", std::max<scaled_int>(-high.value_or(0), 0), low ? std::optional(-*low) : low);
  return grouped(parts);
}

bool is_less(const decimal_bound& a, const decimal_bound& b) {
  const auto k = std::max(a.num_decimals, b.num_decimals);
  return with_decimals(a, k).scaled < with_decimals(b, k).scaled;
}

bool is_empty_range(const std::optional<decimal_bound>& min, const std::optional<decimal_bound>& max,
                    bool only_integers) {
  if (!min || !max) return false;
  if (only_integers) return lowest_integer(*min) > highest_integer(*max);
  return is_less(*max, *min) || (!is_less(*min, *max) && (min->is_exclusive || max->is_exclusive));
}

std::string decimal_text(const decimal_bound& number) {
  std::string digits = digits_of(number.scaled < 0 ? -number.scaled : number.scaled);
  if (digits.size() <= number.num_decimals) digits.insert(0, number.num_decimals + 1 - digits.size(), '0');
  std::string decimals = digits.substr(digits.size() - number.num_decimals);
  digits.resize(digits.size() - number.num_decimals);
  decimals.erase(decimals.find_last_not_of('0') + 1);
  return (number.scaled < 0 ? "-" : "") + digits + (decimals.empty() ? "" : "." + decimals);
}

} // namespace paceline::grammar
