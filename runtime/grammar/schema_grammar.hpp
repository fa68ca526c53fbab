#pragma once

#include "runtime/base/expected.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::grammar {

/// The cost of converting and compiling schemas. One schema may cost at most `most_schema_cost`.
struct schema_cost {
  std::size_t steps = 0;          ///< units of work of at most a few microseconds each
  std::size_t automaton_work = 0; ///< units of work of at most 100 nanoseconds each
  std::size_t rules = 0;
  std::size_t places = 0; ///< rules for states within JSON strings, up to 20 ms of compilation each
  std::size_t bytes = 0;  ///< of EBNF

  schema_cost& operator+=(const schema_cost& other) noexcept;
  bool is_within(const schema_cost& most) const noexcept;
};
inline constexpr schema_cost most_schema_cost{200'000, 8'000'000, 4'000, 384, 512U << 10U};

/// A grammar in EBNF, with start rule "root", for JSON texts that obey `schema` (JSON Schema, draft 2020-12).
/// Every text that the grammar allows obeys the schema, but some texts that obey the schema are not allowed:
/// - Members come in the order in which the schema names them, and those that it does not name come last.
///   Members that the schema does not name are allowed, as JSON Schema says, unless the schema forbids them,
///   for example with "additionalProperties": false.
/// - Between tokens there is nothing, one space, or a line break and up to 20 spaces or tabs.
/// - "format" is enforced for the formats of format_named (schema_keywords.hpp); the other formats that JSON
///   Schema defines are refused, and formats that it does not define have no effect. Some forms of dates,
///   times, mail addresses, host names and URIs are not allowed.
/// - If the items of an array with "uniqueItems" have more than 6 possible values, they come in ascending
///   order of their canonical_text (schema_types.hpp), whatever the order in the schema.
/// - If two alternatives of "oneOf" list different values of a member and may otherwise allow the same
///   object, this member is required in both.
/// - A number is at most 2^64-1 where it has a maximum, and at least -(2^64-1) where it has a minimum.
/// - If a text may have more than 128 characters, an escape in it counts as several characters: those that
///   spell it.
///
/// Errors name the place in the schema as a JSON pointer. errc::invalid_argument: something is not a schema.
/// errc::unsupported: this code cannot enforce a keyword, or the schema costs too much. If `cost` is not
/// null, it receives the cost, also if the schema is refused.
expected<std::string> schema_to_ebnf(std::string_view schema, schema_cost* cost = nullptr);

} // namespace paceline::grammar
