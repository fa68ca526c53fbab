#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace paceline::grammar {

/// Adds an EBNF rule with this body and returns its name.
using rule_adder = std::function<std::string(const std::string& body)>;

/// EBNF for `part`, at least `min` and at most `max` times (nullopt: any number of times). `part` is an
/// element or an expression in parentheses.
std::string repeated(const std::string& part, std::uint32_t min, std::optional<std::uint32_t> max,
                     const rule_adder& add_rule);

} // namespace paceline::grammar
