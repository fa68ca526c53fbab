#include "config/scalar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace paceline::config {

namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array<unit, 4> duration_units{{{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};
constexpr std::array<unit, 5> size_units{
    {{"B", 1}, {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"TiB", 1ULL << 40}}};

/// Decimal digits without sign, blanks or leading zeros; none if `text` is something else or too large.
std::optional<std::uint64_t> parse_digits(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  std::uint64_t n = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// Digits and one of `units`; zero needs no unit.
template <std::size_t N>
std::optional<std::uint64_t> parse_with_unit(std::string_view text, const std::array<unit, N>& units) {
  if (text == "0") return 0;
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto n = parse_digits(text.substr(0, end));
  const auto u = std::ranges::find(units, text.substr(end), &unit::name);
  if (!n || u == units.end() || *n > std::numeric_limits<std::uint64_t>::max() / u->factor)
    return std::nullopt;
  return *n * u->factor;
}

template <std::size_t N>
std::string spell_with_unit(std::uint64_t n, const std::array<unit, N>& units) {
  if (n == 0) return "0";
  auto u = units.rbegin();
  while (n % u->factor != 0) ++u;
  return std::to_string(n / u->factor).append(u->name);
}

/// A decimal number, not negative; from_chars alone would accept "-nan".
std::optional<double> parse_number(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double n = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::string spell_number(double n) {
  std::array<char, 32> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), n);
  return {buffer.data(), end};
}

std::string spell_limit(const option& o, std::uint64_t n) {
  switch (o.type) {
  case value_type::duration:
    return spell_with_unit(n, duration_units);
  case value_type::size:
    return spell_with_unit(n, size_units);
  default:
    return std::to_string(n);
  }
}

/// The value, if `text` has the option's type; limits are not checked.
std::optional<value> parse_type(const option& o, std::string_view text) {
  const auto as_value = [](auto parsed) { return parsed ? std::optional<value>(*parsed) : std::nullopt; };
  switch (o.type) {
  case value_type::boolean:
    if (text == "true") return true;
    if (text == "false") return false;
    return std::nullopt;
  case value_type::integer:
    return as_value(parse_digits(text));
  case value_type::number:
    return as_value(parse_number(text));
  case value_type::size:
    return as_value(parse_with_unit(text, size_units));
  case value_type::duration: {
    const auto ms = parse_with_unit(text, duration_units);
    constexpr auto most = static_cast<std::uint64_t>(std::chrono::milliseconds::max().count());
    if (!ms || *ms > most) return std::nullopt;
    return std::chrono::milliseconds(static_cast<std::int64_t>(*ms));
  }
  case value_type::choice:
    if (std::ranges::find(o.choices, text) == o.choices.end()) return std::nullopt;
    return std::string(text);
  case value_type::text:
    return std::string(text);
  case value_type::text_list:
    break;
  }
  return std::nullopt;
}

bool within_limits(const option& o, const value& v) {
  if (const auto* n = std::get_if<std::uint64_t>(&v)) return *n >= o.lowest && *n <= o.highest;
  if (const auto* x = std::get_if<double>(&v))
    return *x >= static_cast<double>(o.lowest) && *x <= static_cast<double>(o.highest);
  if (const auto* d = std::get_if<std::chrono::milliseconds>(&v)) {
    const auto n = static_cast<std::uint64_t>(d->count());
    return n >= o.lowest && n <= o.highest;
  }
  return true;
}

} // namespace

std::string allowed_values(const option& o) {
  const auto range = [&] { return " from " + spell_limit(o, o.lowest) + " to " + spell_limit(o, o.highest); };
  switch (o.type) {
  case value_type::boolean:
    return "true or false";
  case value_type::integer:
    return "an integer" + range();
  case value_type::number:
    return "a number" + range();
  case value_type::duration:
    return "a duration (250ms, 30s, 5m, 2h)" + range();
  case value_type::size:
    return "a size (100B, 64KiB, 512MiB, 2GiB)" + range();
  case value_type::text:
    return "a text";
  case value_type::text_list:
    return "a list of texts";
  case value_type::choice:
    break;
  }
  std::string all = "one of ";
  for (std::size_t i = 0; i < o.choices.size(); ++i) all.append(i == 0 ? "" : ", ").append(o.choices[i]);
  return all;
}

expected<value> parse_scalar(const option& o, std::string_view text) {
  auto v = parse_type(o, text);
  if (v && within_limits(o, *v)) return *std::move(v);
  constexpr std::size_t longest = 60; // of a value in an error message
  const auto shown =
      text.size() <= longest ? std::string(text) : std::string(text.substr(0, longest)) + "...";
  return error(errc::invalid_argument, "'" + shown + "' is not " + allowed_values(o));
}

std::string spell(const option& o, const value& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (const auto* n = std::get_if<std::uint64_t>(&v)) return spell_limit(o, *n);
  if (const auto* x = std::get_if<double>(&v)) return spell_number(*x);
  if (const auto* d = std::get_if<std::chrono::milliseconds>(&v))
    return spell_with_unit(static_cast<std::uint64_t>(d->count()), duration_units);
  if (const auto* s = std::get_if<std::string>(&v)) return *s;
  std::string all = "[";
  for (const auto& item : std::get<std::vector<std::string>>(v)) {
    if (all.size() > 1) all += ", ";
    all += quote(item);
  }
  return all + "]";
}

std::string quote(std::string_view text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
  constexpr std::array<std::string_view, 5> words{"null", "Null", "NULL", "true", "false"};
  const bool is_plain = !text.empty() && text.find_first_not_of(plain) == std::string_view::npos &&
                        text.front() != '-' && std::ranges::find(words, text) == words.end();
  if (is_plain) return std::string(text);
  std::string out = "\"";
  constexpr std::string_view hex = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out.append({'\\', c});
    else if (c == '$')
      out += "$$"; // otherwise it would be expanded
    else if (byte < 0x20 || byte == 0x7F)
      out.append({'\\', 'x', hex[byte >> 4], hex[byte & 15]});
    else
      out += c;
  }
  return out + '"';
}

} // namespace paceline::config
