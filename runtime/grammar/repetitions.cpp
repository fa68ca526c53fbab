#include "runtime/grammar/repetitions.hpp"

namespace paceline::grammar {

namespace {

/// The library counts up to this number. Above it, it counts only if the number of times is exact.
constexpr std::uint32_t max_counted = 128;

/// EBNF for up to `count` times `rule`, in numbers of times that are powers of two. At each place only a
/// few of these can be open, one for each bit of the count. With the library's own {0,n}, 128 of them are
/// open if n is above 128: masks take 10 to 30 times as long, and long texts use up their work.
std::string at_most(const std::string& rule, std::uint32_t count, const rule_adder& add_rule) {
  std::string power = rule; // matches 2^k times
  std::string fewer;        // matches fewer times
  std::string rest;         // matches at most `count` mod 2^k times
  for (std::uint32_t k = 0; (count >> k) != 0; ++k) {
    if (((count >> k) & 1U) != 0)
      rest = add_rule(power + " " + rest + " | " + (fewer.empty() ? "\"\"" : fewer));
    if ((count >> k) == 1) break; // the highest bit
    fewer = add_rule(power + "? " + fewer);
    power = add_rule(power + " " + power);
  }
  return rest;
}

} // namespace

std::string repeated(const std::string& part, std::uint32_t min, std::optional<std::uint32_t> max,
                     const rule_adder& add_rule) {
  if (!max && min <= 1) return part + (min == 0 ? "*" : "+");
  if (max && *max == 0) return "\"\"";
  if (min == 0 && max == 1U) return part + "?";
  if (max && (*max <= max_counted || *max == min))
    return part + "{" + std::to_string(min) + "," + std::to_string(*max) + "}";
  // With one count for the minimum and the rest, the library would try every place where the counting could
  // begin.
  const std::string least = min == 0 ? "" : part + "{" + std::to_string(min) + "} ";
  return least + (max ? at_most(add_rule(part), *max - min, add_rule) : part + "*");
}

} // namespace paceline::grammar
