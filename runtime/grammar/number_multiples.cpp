// Multiples of numbers.
#include "runtime/grammar/number_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>
#include <utility>

namespace paceline::grammar {

namespace {

/// `bound` in units of 10^-num_decimals; nullopt if that is too large.
std::optional<std::int64_t> scaled_to(const decimal_bound& bound, std::uint32_t num_decimals) {
  constexpr std::int64_t max_scaled = 9'000'000'000'000'000'000;
  scaled_int out = bound.scaled;
  for (auto k = bound.num_decimals; k < num_decimals; ++k) out *= 10;
  if (out > max_scaled || out < -max_scaled) return std::nullopt;
  return static_cast<std::int64_t>(out);
}

/// Reads the digits of a number from the left. A state consists of the remainder of the digits read so far,
/// divided by the unit and counted in units of the last digit, and of how many of these digits are decimals.
class digit_reader {
 public:
  digit_reader(const decimal_bound& unit, bool only_integers, std::string prefix)
      : step_(static_cast<std::int64_t>(unit.scaled)), num_decimals_(unit.num_decimals),
        only_integers_(only_integers), prefix_(std::move(prefix)) {}

  std::optional<digit_rules> write(bool with_zero) {
    std::vector<edge> first{{"\"0\"", number_of({0, 0, false, with_zero})}};
    for (int digit = 1; digit < 10; ++digit)
      first.push_back({"\"" + std::to_string(digit) + "\"", number_of({digit % step_, 0, true, true})});
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_.size() > max_rules) return std::nullopt;
      auto edges = edges_of(states_[i]);
      edges_.push_back(std::move(edges));
    }
    find_alive();
    digit_rules out{body_of(first, false), {}};
    for (std::size_t i = 0; i < states_.size(); ++i)
      out.bodies.push_back(is_alive_[i] ? body_of(edges_[i], accepts(states_[i])) : "");
    return out;
  }

 private:
  static constexpr std::size_t max_rules = 300;
  struct state {
    std::int64_t remainder;
    std::uint32_t decimals; ///< number of decimals read so far; 0: no point was read
    bool may_go_on;         ///< a digit before the point may follow
    bool is_number;         ///< false: all digits so far are 0, and 0 is not allowed
    auto operator<=>(const state&) const = default;
  };
  struct edge {
    std::string text;
    std::size_t to;
  };

  std::size_t number_of(const state& of) {
    const auto [found, is_new] = numbers_.emplace(of, states_.size());
    if (is_new) states_.push_back(of);
    return found->second;
  }

  bool accepts(const state& of) const {
    std::int64_t rest = of.remainder;
    for (auto k = of.decimals; k < num_decimals_; ++k) rest = rest * 10 % step_;
    return of.is_number && rest == 0;
  }

  std::vector<edge> edges_of(const state of) {
    std::vector<edge> out;
    const auto digits = [&](std::uint32_t decimals, const std::string& before) {
      for (std::int64_t digit = 0; digit < 10; ++digit)
        out.push_back({"\"" + before + std::to_string(digit) + "\"",
                       number_of({(of.remainder * 10 + digit) % step_, decimals,
                                  of.may_go_on && decimals == 0, of.is_number || digit > 0})});
    };
    if (of.may_go_on) digits(0, "");
    if (!only_integers_ && of.decimals < num_decimals_) digits(of.decimals + 1, of.decimals == 0 ? "." : "");
    // After a complete multiple with all its decimals, further zeros do not change the value.
    if (!only_integers_ && of.decimals > 0 && of.decimals == num_decimals_ && accepts(of))
      out.push_back({"\"0\"", number_of(of)});
    return out;
  }

  void find_alive() {
    is_alive_.assign(states_.size(), false);
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (std::size_t i = states_.size(); i-- > 0;) {
        if (is_alive_[i]) continue;
        is_alive_[i] = accepts(states_[i]) || std::any_of(edges_[i].begin(), edges_[i].end(),
                                                          [&](const edge& e) { return is_alive_[e.to]; });
        is_changed = is_changed || is_alive_[i];
      }
    }
  }

  std::string body_of(const std::vector<edge>& edges, bool may_end) const {
    std::string body = may_end ? "\"\"" : "";
    for (const auto& [text, to] : edges)
      if (is_alive_[to]) body += (body.empty() ? "" : " | ") + text + " " + prefix_ + std::to_string(to);
    return body;
  }

  std::int64_t step_;
  std::uint32_t num_decimals_;
  bool only_integers_;
  std::string prefix_;
  std::map<state, std::size_t> numbers_;
  std::vector<state> states_;
  std::vector<std::vector<edge>> edges_;
  std::vector<bool> is_alive_;
};

} // namespace

std::optional<bool> is_multiple(const boost::json::value& number, const boost::json::value& unit) {
  const auto a = to_bound(number, false);
  const auto b = to_bound(unit, false);
  if (!a || !b) return std::nullopt;
  const auto k = std::max(a->num_decimals, b->num_decimals);
  const auto x = scaled_to(*a, k);
  const auto y = scaled_to(*b, k);
  return x && y && *y != 0 ? std::optional(*x % *y == 0) : std::nullopt;
}

std::optional<decimal_bound> common_multiple(const decimal_bound& a, const decimal_bound& b) {
  const auto k = std::max(a.num_decimals, b.num_decimals);
  const auto x = scaled_to(a, k);
  const auto y = scaled_to(b, k);
  if (!x || !y) return std::nullopt;
  const auto shared = std::gcd(*x, *y);
  if (static_cast<double>(*x / shared) * static_cast<double>(*y) > 1e15) return std::nullopt;
  return decimal_bound{*x / shared * *y, k, false};
}

std::optional<std::vector<decimal_bound>> multiples_between(const decimal_bound& min,
                                                            const decimal_bound& max,
                                                            const decimal_bound& unit,
                                                            std::size_t max_count) {
  constexpr std::int64_t max_exact = std::int64_t{1} << 53U;
  const auto k = std::max({min.num_decimals, max.num_decimals, unit.num_decimals});
  const auto low = scaled_to(min, k);
  const auto high = scaled_to(max, k);
  const auto step = scaled_to(unit, k);
  if (!low || !high || !step || std::max({std::abs(*low), std::abs(*high), *step}) > max_exact)
    return std::nullopt;
  std::int64_t first = *low / *step;
  while (first * *step < *low || (min.is_exclusive && first * *step == *low)) ++first;
  std::int64_t last = *high / *step;
  while (last * *step > *high || (max.is_exclusive && last * *step == *high)) --last;
  if (last - first >= static_cast<std::int64_t>(max_count)) return std::nullopt;
  std::vector<decimal_bound> out;
  for (auto times = first; times <= last; ++times) out.push_back({times * *step, k, false});
  return out;
}

std::optional<digit_rules> multiples_of(const decimal_bound& unit, bool only_integers, bool with_zero,
                                        const std::string& prefix) {
  constexpr std::int64_t max_step = 1'000'000'000; // ten times a remainder must not overflow
  if (unit.scaled <= 0 || unit.scaled > max_step) return std::nullopt;
  return digit_reader(unit, only_integers, prefix).write(with_zero);
}

} // namespace paceline::grammar
